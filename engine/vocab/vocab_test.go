// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package vocab

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOf(rapid.Int32Range(reserved, Size-1)).Draw(t, "ids")
		got := Encode(Decode(ids))
		require.Len(t, got, len(ids))
		for i := range ids {
			require.Equal(t, ids[i], got[i])
		}
	})
}

func TestEncodeAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		for _, id := range Encode(text) {
			require.GreaterOrEqual(t, id, int32(reserved))
			require.Less(t, id, int32(Size))
		}
	})
}

func TestEqualPrefixes(t *testing.T) {
	a, b := Encode("The quick brown fox jumps"), Encode("The quick brown fox sleeps")
	assert.Equal(t, a[:4], b[:4])
	assert.NotEqual(t, a[4:], b[4:])
}

func TestLength(t *testing.T) {
	text := "A paged pool hands out pages of slots, and every page belongs to exactly one owner at any moment in time."
	assert.InDelta(t, len(text)/4, len(Encode(text)), 8)
}

// History that a client sends back hits the cache: a chat's next turn begins with
// what the last one was and generated.
func TestChatHistory(t *testing.T) {
	answer := []int32{4711, 300, 128000}
	first := append(ChatPrompt(Chat(nil, "user", "hello")), answer...)
	second := Chat(Chat(nil, "user", "hello"), "assistant", Decode(answer))
	assert.Equal(t, first, second[:len(first)])
}
