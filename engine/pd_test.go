// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
	"github.com/otelcol-sglang/otelcol-sglang/engine/disagg"
	"github.com/otelcol-sglang/otelcol-sglang/engine/load"
	"github.com/otelcol-sglang/otelcol-sglang/engine/trace"
	"github.com/otelcol-sglang/otelcol-sglang/engine/truth"
)

// linkDelay is what a message between the halves of a pair takes.
const linkDelay = 300 * time.Microsecond

// pair is a prefill and a decode engine on one loop, with clients of both.
func pair(ctx context.Context, t testing.TB, loop *clock.Loop, a args.Args, spec string, spans func(name string) trace.Sink, records func(*truth.Record)) (prefill, decode *Engine) {
	t.Helper()
	a.EnableMetrics, a.EnableTrace = true, true
	toDecode, toPrefill := disagg.Pair(loop, linkDelay)
	half := func(mode string, link disagg.Link, faults []string) *Engine {
		b := a
		b.DisaggregationMode, b.Faults = mode, faults
		if mode == args.Decode {
			b.Seed += 1000
		}
		e, err := New(ctx, b, Options{Loop: loop, Spans: spans(mode), Link: link, Truth: records})
		require.NoError(t, err)
		return e
	}
	prefill, decode = half(args.Prefill, toDecode, a.Faults), half(args.Decode, toPrefill, nil)
	sources, err := load.Parse(spec)
	require.NoError(t, err)
	decode.Clients = load.New(loop, PairTarget(prefill, decode), sources, a.Seed).Rooms()
	return prefill, decode
}

// TestTruthPD is TestTruth of a prefill and a decode engine.
func TestTruthPD(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChain(t)
		loop := clock.NewVirtual(time.Now())
		a := args.Default()
		a.TPSize = 2
		byRoom := map[string]*truth.Record{}
		var decodes []*truth.Record
		prefill, decode := pair(t.Context(), t, loop, a, "mixed:rate=20,abort=0,count="+strconv.Itoa(count()),
			func(name string) trace.Sink { return peer{c.first, name} },
			func(r *truth.Record) {
				if r.Role == args.Prefill {
					byRoom[r.Room] = r
					return
				}
				decodes = append(decodes, r)
			})
		play(t, loop, []*Engine{prefill, decode})
		c.close(t)
		want := map[string]map[string]float64{}
		for _, r := range decodes {
			if p := byRoom[r.Room]; assert.NotNil(t, p, r.ID) {
				want[r.ID] = r.Joined(p)
			}
		}
		compareTo(t, want, c.roots())
	})
}
