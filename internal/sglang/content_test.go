// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sglang_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

func TestKnownAttribute(t *testing.T) {
	for key, want := range map[string]bool{
		sglang.AttrRID: true, sglang.AttrDecodeCT: true, sglang.EventAttrForwardMode: true, sglang.AttrOutTPOT: true,
		sglang.AttrPromptTokens: true, "gen_ai.usage.reasoning_tokens": true, sglang.AttrPriority: true,
		sglang.AttrBudgetPrefix + "queue": true, sglang.AttrRanksSkewPrefix + "prefill_forward": true,
		sglang.AttrCompleteness: true, sglang.AttrAbortMessage: true,
		"":                                  false,
		"sglang.":                           false,
		"sglang.prompt":                     false,
		"sglang.request.prompt":             false,
		"gen_ai.prompt":                     false,
		"gen_ai.usage":                      false,
		"gen_ai.input.messages":             false,
		"user.id":                           false,
		"enduser.id":                        false,
		"matched":                           false,
		"lora_name":                         false,
		"http.request.header.authorization": false,
	} {
		assert.Equal(t, want, sglang.KnownAttribute(key), key)
	}
}

func TestContentAttribute(t *testing.T) {
	for key, want := range map[string]bool{
		"gen_ai.prompt": true, "gen_ai.prompt.0.content": true, "gen_ai.input.messages": true,
		"user.id": true, "user.email": true, "enduser.id": true, "user": true, "llm.input_messages.0.message.content": true,
		"http.request.header.authorization": true, "process.command_args": true, "input.value": true,
		"":                          false,
		"gen_ai.prompt_tokens":      false,
		sglang.AttrPromptTokens:     false,
		sglang.AttrCompletionTokens: false,
		"user_agent.original":       false,
		"userland":                  false,
		"http.request.method":       false,
		"http.request.header_size":  false,
		"process.pid":               false,
		"gen_ai.request.model":      false,
		"gen_ai.tool.call.id":       false,
	} {
		assert.Equal(t, want, sglang.ContentAttribute(key), key)
		assert.False(t, want && sglang.KnownAttribute(key), "%s is known and content", key)
	}
}
