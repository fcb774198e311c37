// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
)

// FuzzBodies: of any body comes an error, or requests that the engine can take.
func FuzzBodies(f *testing.F) {
	for _, body := range []string{
		`{"prompt":"Hello","max_tokens":7,"n":2,"temperature":0.5,"top_p":1,"ignore_eos":true}`,
		`{"prompt":[[1,2],"x",[3]],"input":["a","b"],"text":["c"],"sim_output_len":3}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}],"max_completion_tokens":9223372036854775807}`,
		`{"input_ids":[[1],null],"sampling_params":{"max_new_tokens":0,"json_schema":"{}"},"session_params":{"id":"s"}}`,
		`{"prompt":null,"bootstrap_room":18446744073709551615,"priority":-1,"custom_labels":{"a":"b"}}`,
	} {
		f.Add([]byte(body))
	}
	a := args.Default()
	a.ContextLength = 4096
	s := &Service{Engine: Engine{Args: &a}}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var open openAIBody
		if json.Unmarshal(raw, &open) == nil {
			if ids, err := chatTokens(open.Messages); err == nil {
				s.accepted(t, ledger.KindChat, [][]int32{ids}, &open.sampling, &open.routing, open.MaxTokens)
			}
			prompts, _ := promptTokens(open.Prompt)
			s.accepted(t, ledger.KindCompletion, prompts, &open.sampling, &open.routing, open.MaxTokens)
		}
		var native generateBody
		if json.Unmarshal(raw, &native) == nil {
			prompts, _, _ := native.prompts()
			s.accepted(t, ledger.KindGenerate, prompts, &native.SamplingParams.sampling, &native.routing, native.SamplingParams.MaxNewTokens)
		}
		var embed embeddingBody
		if json.Unmarshal(raw, &embed) == nil {
			prompts, _ := promptTokens(embed.Input)
			s.accepted(t, ledger.KindEmbedding, prompts, &sampling{}, &embed.routing, nil)
		}
	})
}

func (s *Service) accepted(t *testing.T, kind ledger.Kind, prompts [][]int32, sm *sampling, rt *routing, limit *int) {
	t.Helper()
	for i, ids := range prompts {
		q, err := s.request(httptest.NewRequest(http.MethodPost, "/", nil), kind, ids, sm, rt.of(i), limit, defaultMaxTokens)
		if err != nil {
			continue
		}
		assert.NotEmpty(t, q.Prompt)
		assert.Less(t, len(q.Prompt), s.Args.ContextLength)
		assert.True(t, q.N >= 1 && q.N <= maxSamples)
		if kind != ledger.KindEmbedding {
			assert.GreaterOrEqual(t, q.MaxTokens, 0)
			assert.LessOrEqual(t, q.MaxTokens, s.Args.ContextLength-len(q.Prompt))
			assert.True(t, q.OutputLen >= 1 && q.OutputLen <= max(1, q.MaxTokens))
		}
		assert.False(t, q.Temperature != nil && math.IsNaN(*q.Temperature))
	}
}
