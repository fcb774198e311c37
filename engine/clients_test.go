// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// TestClients: what the built-in clients measure at their end, and what the collector
// derives from the engine's spans, are the same within 2 %.
func TestClients(t *testing.T) {
	const apart = 0.02
	synctest.Test(t, func(t *testing.T) {
		c := newChain(t)
		a := args.Default()
		a.TPSize, a.EnableMetrics, a.EnableTrace = 2, true, true
		a.Load = "chat:rate=20,count=200,stream=1,abort=0" // all stream: else clients see no first token
		e, err := New(t.Context(), a, Options{Loop: clock.NewVirtual(time.Now()), Spans: peer{c.first, "clients"}})
		require.NoError(t, err)
		play(t, e.Loop, []*Engine{e})
		c.close(t)
		rep := e.Clients.Results.Report()
		require.Zero(t, rep.Failed, rep.FirstError)
		derived := map[string][]float64{}
		for _, root := range c.roots() {
			for _, attr := range []string{sglang.AttrLatencyTTFT, sglang.AttrLatencyE2E, sglang.AttrOutTPOT} {
				if v, ok := root.Get(attr); ok {
					derived[attr] = append(derived[attr], v.Double())
				}
			}
		}
		median := func(attr string) float64 {
			all := derived[attr]
			require.Greater(t, len(all), rep.Finished*9/10, attr)
			slices.Sort(all)
			return all[len(all)/2]
		}
		assert.InEpsilon(t, rep.TTFT.P50, median(sglang.AttrLatencyTTFT), apart, "TTFT")
		assert.InEpsilon(t, rep.TPOT.P50, median(sglang.AttrOutTPOT), apart, "TPOT")
		assert.InEpsilon(t, rep.E2E.P50, median(sglang.AttrLatencyE2E), apart, "E2E")
	})
}
