// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func TestCut(t *testing.T) {
	for name, tt := range map[string]struct {
		start, end int64
		spans      []Span
		want       Budget
	}{
		"nothing known": {start: 10, end: 30, want: Budget{Unattributed: 20}},
		"one after the other with a gap": {
			start: 0, end: 100,
			spans: []Span{{0, 10, Tokenize, Own}, {15, 20, Queue, Own}, {20, 90, Prefill, Own}, {90, 100, Finish, Filler}},
			want:  Budget{Tokenize: 10, Unattributed: 5, Queue: 5, Prefill: 70, Finish: 10},
		},
		"clamped at both ends": {
			start: 50, end: 100,
			spans: []Span{{0, 60, Queue, Own}, {60, 400, Decode, Own}},
			want:  Budget{Queue: 10, Decode: 40},
		},
		"the later stage has an overlap": {
			start: 0, end: 30,
			spans: []Span{{10, 30, Intake, Own}, {0, 20, Dispatch, Own}},
			want:  Budget{Dispatch: 10, Intake: 20},
		},
		"a retraction inside decode": {
			start: 0, end: 100,
			spans: []Span{{0, 100, Decode, Own}, {20, 50, RetractWait, Own}, {50, 60, Reprefill, Own}},
			want:  Budget{Decode: 60, RetractWait: 30, Reprefill: 10},
		},
		"the prefill half's work wins over waiting for it": {
			start: 0, end: 100,
			spans: []Span{
				{0, 40, Bootstrap, Waiting},
				{40, 90, KVTransfer, Waiting},
				{90, 100, Decode, Own},
				{10, 20, Queue, PeerWork},
				{20, 70, Prefill, PeerWork},
				{70, 95, KVTransfer, PeerWork},
			},
			want: Budget{Bootstrap: 10, Queue: 10, Prefill: 50, KVTransfer: 20, Decode: 10},
		},
		"spans without length and backwards": {
			start: 0, end: 10,
			spans: []Span{{5, 5, Decode, Own}, {8, 2, Prefill, Own}},
			want:  Budget{Unattributed: 10},
		},
		"no time at all": {start: 10, end: 10, spans: []Span{{0, 20, Decode, Own}}},
		"backwards":      {start: 10, end: 0, spans: []Span{{0, 20, Decode, Own}}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, Cut(tt.start, tt.end, tt.spans))
		})
	}
}

func TestStageNames(t *testing.T) {
	assert.Equal(t, "kv_transfer", KVTransfer.String())
	assert.Equal(t, "unknown", Count.String())
	seen := map[string]bool{}
	for s := range Count {
		assert.NotEmpty(t, s.String())
		assert.False(t, seen[s.String()])
		seen[s.String()] = true
	}
}

func TestAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.Int64Range(0, 1e6).Draw(t, "start")
		length := rapid.Int64Range(0, 1e6).Draw(t, "length")
		spans := rapid.SliceOfN(rapid.Custom(anySpan), 0, 60).Draw(t, "spans")
		given := slices.Clone(spans)
		b := Cut(start, start+length, spans)
		if b.Total() != length {
			t.Fatalf("stages add up to %d of %d", b.Total(), length)
		}
		for s, ns := range b {
			if ns < 0 {
				t.Fatalf("%s has %d ns", Stage(s), ns)
			}
		}
		assert.Equal(t, given, spans, "the input is left alone")
		for i := range spans { // any order gives the same
			j := rapid.IntRange(0, i).Draw(t, "swap")
			spans[i], spans[j] = spans[j], spans[i]
		}
		assert.Equal(t, b, Cut(start, start+length, spans))
	})
}

func anySpan(t *rapid.T) Span {
	from := rapid.Int64Range(-1e5, 21e5).Draw(t, "from")
	return Span{
		Start:    from,
		End:      from + rapid.Int64Range(-10, 1e6).Draw(t, "length"),
		Stage:    Stage(rapid.IntRange(0, int(Count)-1).Draw(t, "stage")),
		Priority: Priority(rapid.IntRange(0, int(Own)).Draw(t, "priority")),
	}
}

func BenchmarkCut(b *testing.B) {
	spans := []Span{
		{0, 20, Tokenize, Own},
		{20, 30, Dispatch, Own},
		{35, 40, Intake, Own},
		{40, 60, Queue, Own},
		{60, 90, Prefill, Own},
		{90, 400, Decode, Own},
		{120, 160, RetractWait, Own},
		{160, 200, Reprefill, Own},
		{400, 410, Finish, Filler},
	}
	b.ReportAllocs()
	for b.Loop() {
		Cut(0, 410, spans)
	}
}
