// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package fault // import "github.com/otelcol-sglang/otelcol-sglang/engine/fault"

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/api"
	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/front"
	"github.com/otelcol-sglang/otelcol-sglang/engine/trace"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

var faults = []Fault{
	{
		Name: "slow-rank", About: "one rank is slow: all wait for its GPU at each step (factor), its spans end last (delay), and what it measures of requests is longer on the page (page; needs --enable-metrics-for-all-schedulers)",
		Defaults: map[string]string{"rank": "1", "factor": "1.5", "delay": "4ms", "page": "1.2"}, prepare: slowRank,
	},
	{
		Name: "exporter-overload", About: "one rank's span exporter can't keep up: its queue fills, and spans of that rank alone are lost",
		Defaults: map[string]string{"rank": "1", "time": "5s"}, prepare: exporterOverload,
	},
	{
		Name: "kv-pressure", About: "a share of the KV pool is taken: requests queue, then lose their KV and start again",
		Defaults: map[string]string{"share": "0.9"}, prepare: kvPressure,
	},
	{
		Name: "cache-drift", About: "a share of the device's cache and one of the host's are taken: hits come from the host and from storage, and cost time (needs --enable-hierarchical-cache)",
		Defaults: map[string]string{"share": "0.8", "host": "0.8"}, prepare: cacheDrift,
	},
	{
		Name: "dp-skew-routing", About: "the router sends a share of all requests to one DP rank: its queue is long, others idle",
		Defaults: map[string]string{"rank": "0", "share": "0.8"}, prepare: skewRouting,
	},
	{
		Name: "dp-skew-length", About: "DP ranks get as many requests, but one gets the long prompts: attention waits for it",
		prepare: skewLength,
	},
	{
		Name: "expert-imbalance", About: "what is asked for changes, and few experts get most tokens: the GPUs wait for the fullest (needs a MoE --model-profile and --enable-eplb or --enable-expert-distribution-metrics)",
		Defaults: map[string]string{"skew": "1.2"}, prepare: expertImbalance,
	},
	{
		Name: "worse-drafts", About: "speculation's drafts are accepted less often: decode is slower per token at the same step time",
		Defaults: map[string]string{"quality": "0.3"}, prepare: worseDrafts,
	},
	{
		Name: "scheduler-stall", About: "each round of the scheduler's loop takes longer on the CPU: the GPUs wait",
		Defaults: map[string]string{"time": "20ms"}, prepare: schedulerStall,
	},
	{
		Name: "frontend-flood", About: "bursts of status requests keep the front end busy: first tokens reach clients late though the scheduler had them",
		Defaults: map[string]string{"burst": "100", "every": "80ms", "cost": "600us"}, prepare: frontendFlood,
	},
	{
		Name: "slow-transfer", About: "KV transfers from prefill to decode are slow, and a share fails (prefill engine)",
		Defaults: map[string]string{"factor": "20", "fail": "0"}, prepare: slowTransfer,
	},
	{
		Name: "no-scheduler-spans", About: "scheduler spans are missing under a share of the roots, as with several tokenizer workers",
		Defaults: map[string]string{"share": "0.75"}, prepare: noSchedulerSpans,
	},
	{
		Name: "dead-rank", About: "one rank's process reports nothing any more: no spans, and its gauges keep their last values",
		Defaults: map[string]string{"rank": "1"}, prepare: deadRank,
	},
	{
		Name: "stuck", About: "the schedulers take no batch: nothing runs while the queue grows",
		prepare: stuck,
	},
	{
		Name: "restart", About: "the engine crashes and comes back: requests are lost, all counters begin again; other faults go on",
		Defaults: map[string]string{"down": "5s"}, prepare: restart,
	},
	{
		Name: "clock-skew", About: "one rank's wall clock is off",
		Defaults: map[string]string{"rank": "1", "offset": "-250ms"}, prepare: clockSkew,
	},
	{Name: "page-500", About: "the metrics page answers 500", prepare: pageFault(pageError)},
	{Name: "page-307", About: "the metrics page answers 307 to /metrics/, which has it", prepare: pageFault(pageRedirect)},
	{Name: "page-empty", About: "the metrics page answers 200 with nothing", prepare: pageFault(pageEmpty)},
	{
		Name: "page-slow", About: "the metrics page takes long",
		Defaults: map[string]string{"time": "15s"}, prepare: pageSlow,
	},
}

// rank is an argument that names a global TP rank.
func (v *values) rank(p *Parts) int { return v.whole("rank", 0, p.Args.TPSize-1) }

var (
	errNoTrace = errors.New("the engine must have enable-trace")
	errNoDP    = errors.New("the engine must have dp-size above 1")
	errNoTiers = errors.New("the engine must have enable-hierarchical-cache")
	errNoMoE   = errors.New("the engine must have a MoE model-profile, and enable-eplb or enable-expert-distribution-metrics")
	errNoSpec  = errors.New("the engine must have a speculative-algorithm")
	errNoPD    = errors.New("the engine must have disaggregation-mode prefill")
)

// condition puts all schedulers of a TP rank into a condition.
func condition(p *Parts, rank int, c trace.Condition) {
	if p.Tracer != nil {
		p.Tracer.Set(func(id trace.Process) bool {
			return id.Kind == sglang.ProcessScheduler && id.TP == int32(rank)
		}, c)
	}
}

func slowRank(p *Parts, v *values) (on, off func(), err error) {
	rank, factor, delay, page := v.rank(p), v.float("factor", 1, 100), v.duration("delay"), v.float("page", 1, 100)
	set := func(factor float64, delay time.Duration, page float64) {
		for _, m := range p.Models {
			m.SetSlow(rank, factor)
		}
		condition(p, rank, trace.Condition{Delay: delay})
		eachPlace(p, func(dp, pp int) { p.Page.SlowRank(dp, pp, rank, page) })
	}
	return func() { set(factor, delay, page) }, func() { set(1, 0, 1) }, nil
}

// eachPlace calls do for every DP rank and pipeline stage.
func eachPlace(p *Parts, do func(dp, pp int)) {
	for _, s := range p.Schedulers {
		for i := range s.Places {
			do(s.Places[i].DPRank, s.Places[i].PPRank)
		}
	}
}

// afflict is a fault that is nothing but a condition of one rank.
func afflict(p *Parts, v *values, c trace.Condition) (on, off func(), err error) {
	if p.Tracer == nil {
		return nil, nil, errNoTrace
	}
	rank := v.rank(p)
	return func() { condition(p, rank, c) }, func() { condition(p, rank, trace.Condition{}) }, nil
}

func exporterOverload(p *Parts, v *values) (on, off func(), err error) {
	return afflict(p, v, trace.Condition{ExportTime: v.duration("time")})
}

func clockSkew(p *Parts, v *values) (on, off func(), err error) {
	return afflict(p, v, trace.Condition{Delay: v.duration("offset")})
}

func kvPressure(p *Parts, v *values) (on, off func(), err error) {
	share := v.float("share", 0, 1)
	set := func(share float64) {
		for i, s := range p.Schedulers {
			full, _, _ := p.Memories[i].Books()
			s.SetPressure(int(share * float64(full.Capacity)))
		}
	}
	return func() { set(share) }, func() { set(0) }, nil
}

func cacheDrift(p *Parts, v *values) (on, off func(), err error) {
	if !p.Args.EnableHierarchicalCache {
		return nil, nil, errNoTiers
	}
	onDevice, atEase, err := kvPressure(p, v)
	share := v.float("host", 0, 1)
	squeeze := func(share float64) {
		for _, m := range p.Memories {
			if host, ok := m.(hostSqueezer); ok {
				host.SqueezeHost(int(share * float64(m.Host().Total)))
			}
		}
	}
	// The device first: what it evicts is on the host alone, and can go from there.
	on = func() { onDevice(); squeeze(share) }
	off = func() { atEase(); squeeze(0) }
	return on, off, err
}

// hostSqueezer is a memory whose host tier can be made small.
type hostSqueezer interface{ SqueezeHost(tokens int) int }

func expertImbalance(p *Parts, v *values) (on, off func(), err error) {
	if len(p.Experts) == 0 {
		return nil, nil, errNoMoE
	}
	skew := v.float("skew", 0, 10)
	on = func() {
		for _, d := range p.Experts {
			d.Shift(skew)
		}
	}
	off = func() {
		for _, d := range p.Experts {
			d.Restore()
		}
	}
	return on, off, nil
}

func skewRouting(p *Parts, v *values) (on, off func(), err error) {
	if p.Controller == nil {
		return nil, nil, errNoDP
	}
	rank, share := v.whole("rank", 0, p.Args.DPSize-1), v.float("share", 0, 1)
	return func() { p.Controller.SetSkew(rank, share) }, func() { p.Controller.SetSkew(0, 0) }, nil
}

func skewLength(p *Parts, _ *values) (on, off func(), err error) {
	if p.Controller == nil {
		return nil, nil, errNoDP
	}
	return func() { p.ByLength(true) }, func() { p.ByLength(false) }, nil
}

func worseDrafts(p *Parts, v *values) (on, off func(), err error) {
	if !p.Args.Speculative() {
		return nil, nil, errNoSpec
	}
	quality := v.float("quality", 0, 1)
	set := func(q float64) {
		for _, d := range p.Drafters {
			d.SetQuality(q)
		}
	}
	return func() { set(quality) }, func() { set(1) }, nil
}

func schedulerStall(p *Parts, v *values) (on, off func(), err error) {
	d := v.duration("time")
	set := func(d time.Duration) {
		for _, s := range p.Schedulers {
			s.SetStall(d)
		}
	}
	return func() { set(d) }, func() { set(0) }, nil
}

func stuck(p *Parts, _ *values) (on, off func(), err error) {
	set := func(paused bool) {
		for _, s := range p.Schedulers {
			s.SetPaused(paused)
		}
	}
	return func() { set(true) }, func() { set(false) }, nil
}

// floodEndpoint is what a router that polls too often asks for.
const floodEndpoint = "/v1/loads"

// frontendFlood leaves the front end's thread free for a quarter of the time with its
// defaults: bursts come at random, so that what arrives waits for 90 ms on average.
func frontendFlood(p *Parts, v *values) (on, off func(), err error) {
	burst, every, cost := v.whole("burst", 1, 1e5), v.duration("every"), v.duration("cost")
	if every <= 0 {
		v.wrong("every", "above 0")
	}
	rng := rand.New(rand.NewPCG(p.Args.Seed, 0xf100d))
	running := true
	var come func(to *front.Front)
	come = func(to *front.Front) {
		if !running || to != p.Front { // another process has its own flood
			return
		}
		for range burst {
			visit := to.Door.Open(floodEndpoint, http.MethodGet, "")
			to.Occupy(cost, func() { visit.Answered(http.StatusOK) })
		}
		p.Loop.After(time.Duration(rng.ExpFloat64()*float64(every)), func() { come(to) })
	}
	return func() { come(p.Front) }, func() { running = false }, nil
}

func slowTransfer(p *Parts, v *values) (on, off func(), err error) {
	if p.Args.DisaggregationMode != args.Prefill {
		return nil, nil, errNoPD
	}
	factor, fail := v.float("factor", 1, 1e6), v.float("fail", 0, 1)
	set := func(factor, fail float64) {
		for _, s := range p.Schedulers {
			s.SetTransfer(factor, fail)
		}
	}
	return func() { set(factor, fail) }, func() { set(1, 0) }, nil
}

func noSchedulerSpans(p *Parts, v *values) (on, off func(), err error) {
	if p.Tracer == nil {
		return nil, nil, errNoTrace
	}
	share := v.float("share", 0, 1)
	return func() { p.Hide(share) }, func() { p.Hide(0) }, nil
}

func deadRank(p *Parts, v *values) (on, off func(), err error) {
	rank := v.rank(p)
	on = func() {
		condition(p, rank, trace.Condition{Silent: true})
		eachPlace(p, func(dp, pp int) { p.Page.StopRank(dp, pp, rank) })
	}
	return on, func() { condition(p, rank, trace.Condition{}) }, nil
}

func restart(p *Parts, v *values) (on, off func(), err error) {
	down := v.duration("down")
	crashed := false
	on = func() {
		if !crashed { // what begins again with the next process is not the crash
			crashed = true
			p.Crash(down)
		}
	}
	return on, func() {}, nil
}

func pageFault(f api.PageFault) func(*Parts, *values) (on, off func(), err error) {
	return func(p *Parts, _ *values) (on, off func(), err error) {
		return func() { p.Service.FaultPage(f) }, func() { p.Service.FaultPage(nil) }, nil
	}
}

func pageError(w http.ResponseWriter, _ *http.Request) bool {
	http.Error(w, "Internal Server Error", http.StatusInternalServerError)
	return true
}

func pageRedirect(w http.ResponseWriter, r *http.Request) bool {
	const target = "/metrics/"
	if r.URL.Path == target {
		return false
	}
	http.Redirect(w, r, target, http.StatusTemporaryRedirect)
	return true
}

func pageEmpty(http.ResponseWriter, *http.Request) bool { return true }

func pageSlow(p *Parts, v *values) (on, off func(), err error) {
	wait := v.duration("time")
	return func() { p.Service.SlowPage(wait) }, func() { p.Service.SlowPage(0) }, nil
}
