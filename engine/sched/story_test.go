// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
)

func noOverlap(a *args.Args) { a.DisableOverlapSchedule = true }

// As in the captures traces-unified-tp2-no-overlap and -tp1-level3: without overlap
// a request waits for its first decode; with it the decode pass is scheduled before
// the prefill's result is seen.
func TestStoryUnified(t *testing.T) {
	for _, tt := range []struct {
		name string
		opts []option
		want []string
	}{
		{"no overlap", []option{with(noOverlap)}, []string{
			"request_process", "prefill_waiting", "+prefill_forward", "prefill of 1", "-prefill_forward",
			"decode_waiting", "+decode_forward", "decode of 1", "decode_loop 0", "decode of 1", "decode_loop 1", "-decode_forward", "end",
		}},
		{"overlap", nil, []string{
			"request_process", "prefill_waiting", "+prefill_forward", "prefill of 1", "decode of 1", "-prefill_forward",
			"+decode_forward", "decode of 1", "decode_loop 0", "decode of 1", "decode_loop 1", "-decode_forward", "end",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newRig(t, tt.opts...)
			r := g.at(time.Millisecond, g.request(100, 3))
			g.run()
			assert.Equal(t, tt.want, g.story(r))
			assert.Equal(t, ledger.FinishLength, r.Finish)
			assert.Len(t, r.Output, 3)
			assert.Equal(t, 2, r.DecodeSteps)
		})
	}
}
