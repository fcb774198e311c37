// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package page // import "github.com/otelcol-sglang/otelcol-sglang/engine/page"

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

const (
	labelTrue  = "true"
	labelFalse = "false"
)

// tokenizer is the front end's book. Its families carry what the client chose
// from the allow-list, so there is one set of families for each combination.
type tokenizer struct {
	page *Page
	sets map[choice]*tokenizerSet
	none *tokenizerSet // for a client that chose nothing
	rest *tokenizerSet // for those for whom no series is left; nil until there is one
	// startup has the longest of each phase over the ranks.
	startup, graph map[string]float64
}

// choice is what a client's labels depend on: its priority, and its values of the
// allow-list, joined.
type choice struct{ priority, custom string }

// tokenizerSet is the families under one combination of a client's labels.
type tokenizerSet struct {
	role                                                *role
	prompt, generation, verifies, cached                *vec[Counter]
	requests, structured, aborted                       *vec[Counter]
	promptTokens, uncachedTokens, generationTokens      *vec[Histogram]
	firstToken, interToken, perToken, endToEnd, loadsIn *vec[Histogram]
}

func newTokenizer(p *Page) *tokenizer {
	t := &tokenizer{page: p, sets: map[choice]*tokenizerSet{}, startup: map[string]float64{}, graph: map[string]float64{}}
	t.none = newTokenizerSet(p, t.labels("", func(string) string { return "" }))
	return t
}

func newTokenizerSet(p *Page, labels []Label) *tokenizerSet {
	r := &role{p, []emitter{{labels: labels, pid: p.frontPID}}}
	return &tokenizerSet{
		role:             r,
		prompt:           r.counter(sglang.FamilyPromptTokensTotal),
		generation:       r.counter(sglang.FamilyGenerationTokensTotal),
		verifies:         r.counter(sglang.FamilySpecVerifyCallsTotal),
		cached:           r.counter(sglang.FamilyCachedTokensTotal),
		requests:         r.counter(sglang.FamilyNumRequestsTotal),
		structured:       r.counter(sglang.FamilyNumSORequestsTotal),
		aborted:          r.counter(sglang.FamilyNumAbortedRequestsTotal),
		promptTokens:     r.histogram(sglang.FamilyPromptTokensHistogram),
		uncachedTokens:   r.histogram(sglang.FamilyUncachedPromptTokensHistogram),
		generationTokens: r.histogram(sglang.FamilyGenerationTokensHistogram),
		firstToken:       r.histogram(sglang.FamilyTimeToFirstTokenSeconds),
		interToken:       r.histogram(sglang.FamilyInterTokenLatencySeconds),
		perToken:         r.histogram(sglang.FamilyRequestTimePerOutputTokenSeconds),
		endToEnd:         r.histogram(sglang.FamilyE2ERequestLatencySeconds),
		loadsIn:          r.histogram(sglang.FamilyGetLoadsDurationSeconds),
	}
}

// labels are the role's, with a client's priority and custom labels.
func (t *tokenizer) labels(priority string, custom func(name string) string) []Label {
	p := t.page
	ls := append([]Label{{sglang.LabelModelName, p.modelName()}, {sglang.LabelEngineType, p.engineType()}}, p.extraLabels()...)
	if p.args.EnablePriorityScheduling {
		ls = append(ls, Label{sglang.LabelPriority, priority})
	}
	for _, name := range p.args.TokenizerMetricsAllowedCustomLabels {
		ls = append(ls, Label{name, custom(name)})
	}
	return ls
}

// of finds the families for a request. Clients that invent ever more labels share one set.
func (t *tokenizer) of(r *ledger.Request) *tokenizerSet {
	c := choice{custom: t.customOf(r)}
	if t.page.args.EnablePriorityScheduling && r.Priority != nil {
		c.priority = strconv.Itoa(*r.Priority)
	}
	if c == (choice{}) {
		return t.none
	}
	set, ok := t.sets[c]
	switch {
	case ok:
		return set
	case len(t.sets) >= t.page.limit:
		return t.overflow()
	}
	set = newTokenizerSet(t.page, t.labels(c.priority, func(name string) string { return r.CustomLabels[name] }))
	t.sets[c] = set
	return set
}

// customOf joins a client's values of the allow-list; "" if it has none.
func (t *tokenizer) customOf(r *ledger.Request) string {
	if len(r.CustomLabels) == 0 {
		return ""
	}
	var b strings.Builder
	for _, name := range t.page.args.TokenizerMetricsAllowedCustomLabels {
		b.WriteString(r.CustomLabels[name])
		b.WriteByte(0)
	}
	if strings.Trim(b.String(), "\x00") == "" {
		return ""
	}
	return b.String()
}

func (t *tokenizer) overflow() *tokenizerSet {
	if t.rest == nil {
		t.rest = newTokenizerSet(t.page, t.labels(Overflow, func(string) string { return Overflow }))
	}
	return t.rest
}

// Finished implements [ledger.TokenizerCollector]. The engine's own probes are in
// no book of the tokenizer's.
func (t *tokenizer) Finished(r *ledger.Request) {
	if r.Kind == ledger.KindHealth {
		return
	}
	s := t.of(r)
	streaming, prompt, output := streaming(r), float64(len(r.Prompt)), float64(len(r.Output))
	add(s.prompt.with(streaming), prompt)
	add(s.generation.with(streaming), output)
	if r.VerifyCalls > 0 {
		add(s.verifies.with(), float64(r.VerifyCalls))
	}
	t.addCached(s, &r.Cached)
	add(s.requests.with(streaming), 1)
	if r.Structured {
		add(s.structured.with(), 1)
	}
	observe(s.endToEnd.with(streaming), ledger.Between(r.Front.Created, r.Front.Finished).Seconds(), 1)
	observe(s.promptTokens.with(), prompt, 1)
	observe(s.uncachedTokens.with(), prompt-float64(r.Cached.Total()), 1)
	observe(s.generationTokens.with(), output, 1)
	if d, ok := timePerOutputToken(r); ok && t.generates(r) {
		observe(s.perToken.with(streaming), d.Seconds(), 1)
	}
}

// addCached tells sources apart only where there is a tier below the device.
func (t *tokenizer) addCached(s *tokenizerSet, c *ledger.CachedTokens) {
	if !t.page.args.EnableHierarchicalCache {
		addPositive(s.cached, sglang.CacheSourceTotal, c.Total())
		return
	}
	addPositive(s.cached, sglang.CacheSourceDevice, c.Device)
	addPositive(s.cached, sglang.CacheSourceHost, c.Host)
	addPositive(s.cached, sglang.CacheSourceStorage, c.Storage)
}

func addPositive(v *vec[Counter], value string, n int) {
	if n > 0 {
		add(v.with(value), float64(n))
	}
}

// timePerOutputToken is that of a request with more than one token that took time
// for them.
func timePerOutputToken(r *ledger.Request) (time.Duration, bool) {
	n := len(r.Output)
	d := ledger.Between(r.Front.FirstToken, r.Front.Finished)
	if n <= 1 || d <= 0 {
		return 0, false
	}
	return d / time.Duration(n-1), true
}

// generates tells whether the times of a request's tokens count: a prefill half
// and an embedding have none, and an abort's say nothing.
func (t *tokenizer) generates(r *ledger.Request) bool {
	return t.page.args.DisaggregationMode != args.Prefill && r.Finish != ledger.FinishAbort &&
		r.Kind != ledger.KindEmbedding && r.Kind != ledger.KindHealth
}

// FirstToken implements [ledger.TokenizerCollector].
func (t *tokenizer) FirstToken(r *ledger.Request, ttft time.Duration) {
	if !t.generates(r) {
		return
	}
	observe(t.of(r).firstToken.with(streaming(r)), ttft.Seconds(), 1)
}

// InterToken implements [ledger.TokenizerCollector].
func (t *tokenizer) InterToken(r *ledger.Request, interval time.Duration, tokens int) {
	if tokens > 0 && t.generates(r) {
		observe(t.of(r).interToken.with(), interval.Seconds()/float64(tokens), tokens)
	}
}

// Aborted implements [ledger.TokenizerCollector].
func (t *tokenizer) Aborted(r *ledger.Request) {
	if r.Kind != ledger.KindHealth {
		add(t.of(r).aborted.with(), 1)
	}
}

// LoadsQueried implements [ledger.TokenizerCollector].
func (t *tokenizer) LoadsQueried(d time.Duration) {
	observe(t.none.loadsIn.with(), d.Seconds(), 1)
}

// started shows how long the phases of the start took.
func (t *tokenizer) started(c *ledger.Constants) {
	phases := slices.Sorted(maps.Keys(c.StartupSeconds))
	t.showLongest(sglang.FamilyStartupTimeSeconds, phases, t.startup, c.StartupSeconds)
	t.showLongest(sglang.FamilyStartupCUDAGraphTimeSeconds, graphPhases, t.graph, c.GraphStartupSeconds)
}

func (t *tokenizer) showLongest(name sglang.FamilyName, phases []string, longest, seconds map[string]float64) {
	g := t.none.role.gauge(name)
	for _, phase := range phases {
		longest[phase] = max(longest[phase], seconds[phase])
		set(g.with(phase), longest[phase])
	}
}

func streaming(r *ledger.Request) string {
	if r.Stream {
		return labelTrue
	}
	return labelFalse
}
