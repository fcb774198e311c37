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
		sum, n := page.summary(sglang.FamilyEPLBBalancedness)
		return sum / n
	}
	assert.Greater(t, balance(even), balance(on), "placed by their use")
}

// models with other pools than that of full attention, in memory so small that it is
// used up.
var models = map[string]func(a *args.Args){
	"gpt-oss-20b-h100": func(a *args.Args) { a.MaxTotalTokens, a.SWAFullTokensRatio = 15_000, 0.2 },
	"qwen3-next-80b-a3b-h100": func(a *args.Args) {
		a.MaxTotalTokens, a.MaxMambaCacheSize = 40_000, 24
	},
}

// The books of every pool balance under load, and the page shows them: what stops the
// engine first is its usage.
func TestPoolsUnderLoad(t *testing.T) {
	for name, change := range models {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(a *args.Args) {
				a.ModelProfile, a.TraceLevel = name, 1
				a.EnableHierarchicalCache, a.HiCacheStorageBackend = true, "file"
				a.Load = "chat:rate=30,abort=0.1,count=400,prefix=200"
				change(a)
			})
			var most, beyond float64
			r.watch(func(l looks) {
				most = max(most, l.sum(sglang.FamilyTokenUsage))
				beyond = max(beyond, l.sum(sglang.FamilyTokenUsage)-l.sum(sglang.FamilyFullTokenUsage))
			})
			r.run(t, 20*time.Minute)
			rep := r.Clients.Results.Report()
			assert.Zero(t, rep.Failed, rep.FirstError)
			assert.Len(t, r.records, 400)
			l := looks(r.Page.Store().Gather())
			_, swa, mamba := r.Memories[0].Books()
			assert.EqualValues(t, swa.Capacity, l.sum(sglang.FamilyMaxTotalNumTokensSWA, "tp_rank=0"))
			assert.EqualValues(t, swa.Capacity, l.sum(sglang.FamilySWAAvailableTokens)+l.sum(sglang.FamilySWAEvictableTokens)+l.sum(sglang.FamilySWAUsedTokens))
			assert.EqualValues(t, mamba.Capacity, l.sum(sglang.FamilyMambaAvailableTokens)+l.sum(sglang.FamilyMambaEvictableTokens)+l.sum(sglang.FamilyMambaUsedTokens))
			assert.Equal(t, mamba.Capacity > 0, l.sum(sglang.FamilyHiCacheHostMambaTotalStates) > 0)
			assert.Equal(t, mamba.Capacity > 0, l.sum(sglang.FamilyHiCacheHostMambaUsedStates) > 0)
			assert.Equal(t, swa.Capacity > 0, l.sum(sglang.FamilySWAEvictableTokens) > 0)
			assert.Positive(t, l.sum(sglang.FamilyCachedTokensTotal, sglang.LabelCacheSource+"=host"))
			t.Logf("usage up to %v, beyond the full pool's up to %v", most, beyond)
			assert.Greater(t, most, 0.7)
			assert.Greater(t, beyond, 0.1, "another pool is short")
		})
	}
}

// watch looks at the page each half second.
func (r *rig) watch(do func(looks)) {
	var look func()
	look = func() {
		do(r.Page.Store().Gather())
		r.loop.After(time.Second/2, look)
	}
	look()
}
