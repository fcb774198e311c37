// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// Adapters and experts are on the page where the arguments ask for them; the groups
// of attention DP have their experts in common.
func TestAdaptersAndExperts(t *testing.T) {
	play := func(change func(*args.Args)) looks {
		r := newRig(t, func(a *args.Args) {
			a.ModelProfile, a.TPSize, a.DPSize, a.EnableDPAttention = "qwen3-30b-a3b-h100", 4, 2, true
			a.TraceLevel, a.Load = 1, "chat:rate=20,count=20"
			change(a)
		})
		r.run(t, time.Minute)
		return r.Page.Store().Gather()
	}
	has := func(page looks, name sglang.FamilyName) bool {
		for _, f := range page {
			if f.GetName() == string(name) {
				return true
			}
		}
		return false
	}
	families := []sglang.FamilyName{sglang.FamilyEPLBBalancedness, sglang.FamilyEPLBGPUPhysicalCount, sglang.FamilyLoRAPoolSlotsTotal}
	off := play(func(*args.Args) {})
	on := play(func(a *args.Args) { a.EnableExpertDistributionMetrics, a.EnableLoRA = true, true })
	for _, f := range families {
		require.True(t, has(on, f), f)
		assert.False(t, has(off, f), f)
	}
	even := play(func(a *args.Args) { a.EnableEPLB = true })
	balance := func(page looks) float64 {
		sum, n := 0.0, uint64(0)
		for _, f := range page {
			if f.GetName() == string(sglang.FamilyEPLBBalancedness) {
				for _, m := range f.GetMetric() {
					sum += m.GetSummary().GetSampleSum()
					n += m.GetSummary().GetSampleCount()
				}
			}
		}
		return sum / float64(n)
	}
	assert.Greater(t, balance(even), balance(on), "placed by their use")
}
