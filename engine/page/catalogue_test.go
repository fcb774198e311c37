// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// notShown says why a text engine never shows a family: by its source, or by name.
var (
	notShownSources = map[sglang.MetricSource]string{
		sglang.SourceEncoder:           "multimodal encoder",
		sglang.SourceEncoderDispatcher: "multimodal encoder",
		sglang.SourceDiffusion:         "diffusion server",
	}
	notShown = map[sglang.FamilyName]string{
		sglang.FamilyGrammarCompilationTimeSeconds:     "dead in this release",
		sglang.FamilyNumGrammarCacheHitTotal:           "dead in this release",
		sglang.FamilyNumGrammarAbortedTotal:            "dead in this release",
		sglang.FamilyNumGrammarTimeoutTotal:            "dead in this release",
		sglang.FamilyNumGrammarTotal:                   "dead in this release",
		sglang.FamilyGrammarSchemaCount:                "dead in this release",
		sglang.FamilyGrammarEBNFSize:                   "dead in this release",
		sglang.FamilyGrammarTreeTraversalTimeAvg:       "dead in this release",
		sglang.FamilyGrammarTreeTraversalTimeMax:       "dead in this release",
		sglang.FamilyMaxRunningRequestsUnderSLO:        "never set",
		sglang.FamilyStartupLatencyBreakdownSecondsMax: "the timer is never enabled",
		sglang.FamilyFuncLatencySeconds:                "no function is decorated",
		sglang.FamilyFailedSessionRecoveriesTotal:      "transfer over Mooncake only; the simulated one has no black list",
	}
)

// everything calls each method of each collector with all parts on.
func everything(e *engine) {
	e.lora = true
	e.started()
	c := constants()
	c.MaxTotalTokensSWA = 1000
	states := 5
	s := e.snapshot()
	s.Host.MambaUsed, s.Host.MambaTotal = &states, &states
	s.Session, s.Routing = &ledger.Sessions{Open: 1}, &ledger.RoutingKeys{Unique: 1, Running: []int{1}, All: []int{2}}
	s.Prefill, s.PD = &ledger.PrefillReport{}, &ledger.PDQueues{}
	s.Decode = &ledger.DecodeReport{Spec: &ledger.SpecReport{}}
	for _, x := range e.schedulers {
		x.Constants(c)
		x.Report(s)
		x.Forward("decode", time.Millisecond, 0)
		x.MFU(1, 1, 1)
		x.KVTransfer(&ledger.Transfer{Bootstrap: 1, Alloc: 1, Latency: 1, Bytes: 1})
		x.BootstrapFailed()
		x.TransferFailed()
		x.PrefillRetry()
		x.HostReceive(1)
		x.DeferredRelease("drained", time.Second)
		x.PrefillDelayed(2, time.Second, "all", "true", "none", "true")
		x.WeightsUpdated("disk", time.Second)
		x.Balancedness("decode", 0.9)
	}
	for i, r := range e.radixes {
		r.Dropped(sglang.DropHostPressure, sglang.PoolKV, 5)
		e.storages[i].BackedUp(1, 1, 1, time.Second)
		e.storages[i].Unfulfilled(sglang.UnfulfilledDeadline, 1)
		e.storages[i].Deferred(sglang.DeferredHostCapacity, 1)
		e.storages[i].BackupDropped(1)
		e.storages[i].AuxAllocFailed(1)
	}
	e.page.Experts().Dispatched(3, []int{1, 2})
	e.http.RoutingKeys(1)
	e.tokenizer.LoadsQueried(time.Millisecond)
	r := request(true)
	r.VerifyCalls, r.Structured = 3, true
	e.served(r)
	e.tokenizer.Aborted(r)
	tieredWork(e)
	dpWork(e)
}

func everythingOn(a *args.Args) {
	tieredTP4(a)
	attentionDP(a)
	a.EPSize = 2
}

// The catalogue and the collectors know the same families.
func TestEveryFamily(t *testing.T) {
	a := testArgs()
	everythingOn(&a)
	e := newEngine(t, a)
	everything(e)
	shown := map[string]bool{}
	for _, f := range e.page.store.Gather() {
		shown[f.GetName()] = true
	}
	for f := range sglang.Families() {
		if f.Until != "" {
			continue
		}
		reason := notShownSources[f.Source] + notShown[sglang.FamilyName(f.Name)]
		assert.Equal(t, reason == "", shown[f.Name], "%s: shown, or a reason why not (%q)", f.Name, reason)
		assert.Equal(t, f.Emitters == sglang.EmitNever, strings.HasPrefix(reason, "dead") || reason == "never set" ||
			reason == "the timer is never enabled", "%s: dead", f.Name)
	}
}

// The labels of each series are those that the catalogue says.
func TestLabelsOfTheCatalogue(t *testing.T) {
	a := testArgs()
	everythingOn(&a)
	a.ExtraMetricLabels = map[string]string{"team": "search"}
	e := newEngine(t, a)
	everything(e)
	for _, family := range e.page.store.Gather() {
		f, _ := sglang.FamilyOf(family.GetName())
		for _, m := range family.Metric {
			has := map[string]bool{}
			for _, l := range m.Label {
				has[l.GetName()] = true
			}
			for _, l := range f.Labels {
				assert.True(t, has[l], "%s has no %s", f.Name, l)
				delete(has, l)
			}
			assert.Equal(t, f.ExtraLabels, has["team"], "%s: extra labels", f.Name)
			assert.Equal(t, f.HasPID(), has[sglang.LabelPID], "%s: pid", f.Name)
			for _, l := range append([]string{"team", sglang.LabelPID}, f.OptionalLabels...) {
				delete(has, l)
			}
			assert.Empty(t, has, "%s has more labels", f.Name)
		}
	}
}

// The bounds are those of the catalogue, to the ten digits that it has.
func TestBoundsOfTheCatalogue(t *testing.T) {
	a := testArgs()
	everythingOn(&a)
	a.EPSize = 8
	e := newEngine(t, a)
	everything(e)
	for _, family := range e.page.store.Gather() {
		f, _ := sglang.FamilyOf(family.GetName())
		for _, m := range family.Metric {
			if m.Histogram == nil {
				assert.Empty(t, f.Buckets, f.Name)
				continue
			}
			got := make([]float64, len(m.Histogram.Bucket))
			for i, b := range m.Histogram.Bucket {
				got[i] = b.GetUpperBound()
			}
			assert.InEpsilonSlice(t, replaceZero(f.Buckets), replaceZero(got), 1e-9, f.Name)
		}
	}
}

// replaceZero makes relative comparisons possible.
func replaceZero(bounds []float64) []float64 {
	out := make([]float64, len(bounds))
	for i, b := range bounds {
		out[i] = b + 1e-6
	}
	return out
}

func TestLoadsFamilies(t *testing.T) {
	want, got := map[sglang.LoadsName]bool{}, map[sglang.LoadsName]bool{}
	for name := range sglang.LoadsFamilies() {
		want[name] = true
	}
	full := Load{Memory: &MemoryLoad{}, Spec: &SpecLoad{}, LoRA: &LoRALoad{}, Disagg: &DisaggLoad{}, Queues: &QueuesLoad{}}
	full.each(func(n sglang.LoadsName, _ float64) { got[n] = true })
	assert.Equal(t, want, got)

	var b strings.Builder
	require.NoError(t, WriteLoads(&b, []Load{{DPRank: 0, NumRunningReqs: 3}, {DPRank: 1, Spec: &SpecLoad{AcceptRate: 0.5}}}))
	assert.Contains(t, b.String(), "# TYPE sglang_num_running_reqs gauge\nsglang_num_running_reqs{dp_rank=\"0\"} 3\nsglang_num_running_reqs{dp_rank=\"1\"} 0\n")
	assert.Contains(t, b.String(), "# TYPE sglang_spec_accept_rate gauge\nsglang_spec_accept_rate{dp_rank=\"1\"} 0.5\n")
	assert.NotContains(t, b.String(), "HELP")
	assert.NotContains(t, b.String(), "sglang_lora", "sections that are off are not there")
}
