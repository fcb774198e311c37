// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/goleak"

	"github.com/otelcol-sglang/otelcol-sglang/internal/capture"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

const (
	root        = "../../../.."
	capturesDir = root + "/testdata/captures/traces"
	// pipelineDir has what the pipeline made of each capture.
	pipelineDir = root + "/internal/pipeline/testdata"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a capture as it came in, and as it left.
func fixture(t *testing.T, name string) (kept, raw *Spans) {
	t.Helper()
	kept, raw = NewSpans(), NewSpans()
	f, err := os.Open(filepath.Join(pipelineDir, strings.TrimPrefix(name, "traces-")+".jsonl"))
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, capture.ReadTraces(f, func(td ptrace.Traces) error {
		kept.Add(td)
		return nil
	}))
	exports, err := capture.Load(capturesDir, name)
	require.NoError(t, err)
	for _, e := range exports {
		raw.Add(e.Traces)
	}
	return kept, raw
}

func eachFixture(t *testing.T, do func(t *testing.T, kept, raw *Spans)) {
	names, err := capture.Names(capturesDir)
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			kept, raw := fixture(t, name)
			do(t, kept, raw)
		})
	}
}

// unseen is what no capture shows: a health probe's root, and an engine that does
// not report the time in the model.
var unseen = []string{sglang.AttrHealthCheck, sglang.AttrLatencyInInference}

// TestEachAttributeHasARule: whatever the processors write on a span that the
// engine did not is explained.
func TestEachAttributeHasARule(t *testing.T) {
	used := map[string]bool{}
	eachFixture(t, func(t *testing.T, kept, raw *Spans) {
		for id, span := range kept.byID {
			sent := raw.byID[id]
			for key, value := range span.Attributes().All() {
				if before, there := sent.Attributes().Get(key); there && before.Equal(value) {
					continue
				}
				r, ok := find(rulesOf(span), key)
				if assert.True(t, ok, "%s on %q has no rule", key, span.Name()) {
					used[r.key] = true
					assert.NotEmpty(t, r.text, key)
				}
			}
		}
	})
	for _, rules := range [][]rule{onRoot, onDecode, onThread} {
		for _, r := range rules {
			assert.NotEmpty(t, r.text, r.key)
			assert.NotEqual(t, slices.Contains(unseen, r.key), used[r.key], "does a capture show %s?", r.key)
		}
	}
}

// TestComputedEqualsWritten: the rules give the processors' very values, and none
// where these wrote none; with the raw spans and without.
func TestComputedEqualsWritten(t *testing.T) {
	checked := map[string]int{}
	eachFixture(t, func(t *testing.T, kept, raw *Spans) {
		for _, span := range kept.Roots() {
			for _, with := range []*Spans{raw, nil} {
				v := NewView(span, kept, with)
				if v.role == sglang.RoleSender {
					continue
				}
				for _, r := range onRoot {
					checkRule(t, v, r, checked)
				}
			}
		}
	})
	for _, r := range onRoot {
		if r.compute != nil {
			assert.Positive(t, checked[r.key], "%s is never computed", r.key)
		}
	}
}

func checkRule(t *testing.T, v *View, r rule, checked map[string]int) {
	keys := []string{r.key}
	if r.key == sglang.AttrBudgetPrefix {
		keys = nil
		for _, stage := range stageOrder {
			keys = append(keys, sglang.AttrBudgetPrefix+stage)
		}
	}
	for _, key := range keys {
		if r.compute == nil {
			continue
		}
		a := r.compute(v, key)
		if a.unsure {
			assert.True(t, v.raw == nil || !v.complete(), "%s with all there is: %s", key, a.why)
			continue
		}
		written, ok := v.root.Attributes().Get(key)
		if !assert.Equal(t, ok, a.known, "%s of %s, raw %t: computed %v (%s)", key, v.root.SpanID(), v.raw != nil, a.value, a.why) || !ok {
			continue
		}
		checked[r.key]++
		if written.Type() == pcommon.ValueTypeStr {
			assert.Equal(t, written.Str(), a.word, key)
			continue
		}
		value, _ := number(v.root, key)
		assert.InDelta(t, value, a.value, 1e-9, "%s of %s, raw %t", key, v.root.SpanID(), v.raw != nil)
	}
}

// TestFolded: the steps and the ranks' copies give what stands on the kept spans.
func TestFolded(t *testing.T) {
	checked := 0
	eachFixture(t, func(t *testing.T, kept, raw *Spans) {
		for _, root := range kept.Roots() {
			v := NewView(root, kept, raw)
			for _, span := range kept.byID {
				if !v.owns(span) {
					continue
				}
				for _, r := range rulesOf(span) {
					value, ok := number(span, r.key)
					if !ok || r.compute == nil {
						continue
					}
					a := r.compute(v.on(span), r.key)
					require.True(t, a.known, "%s: %s", r.key, a.why)
					assert.InDelta(t, value, a.value, 1e-9, "%s of %s", r.key, span.Name())
					checked++
				}
			}
		}
	})
	assert.Greater(t, checked, 200)
}

// TestEachRefusalHasAText: the words in sglang.latency.invalid are explained.
func TestEachRefusalHasAText(t *testing.T) {
	dir := root + "/processor/genaiprocessor/internal/latency"
	source, err := os.ReadFile(filepath.Join(dir, "believe.go"))
	require.NoError(t, err)
	words := regexp.MustCompile(`Reason\w+ +Reason = "(\w+)"`).FindAllStringSubmatch(string(source), -1)
	require.NotEmpty(t, words)
	for _, word := range words {
		assert.NotEmpty(t, Reasons[word[1]], word[1])
	}
	assert.Len(t, Reasons, len(words))
}

// TestRefused: an engine without metrics reports requests that don't stream
// wrongly; the three times to first token are told apart.
func TestRefused(t *testing.T) {
	kept, raw := fixture(t, "traces-nonstream-tp2-metrics-off")
	found := false
	for _, span := range kept.Roots() {
		v := NewView(span, kept, raw)
		if v.refused("time_to_first_token") == "" {
			continue
		}
		found = true
		list, err := Matching(All(v, kept, 900*time.Millisecond), sglang.AttrLatencyTTFT)
		require.NoError(t, err)
		require.Len(t, list, 1)
		e := list[0]
		assert.True(t, *e.Agrees)
		assert.NotEmpty(t, e.Reported)
		assert.NotEqual(t, e.Reported, e.Value)
		require.Len(t, e.Compared, 3)
		assert.Contains(t, e.Compared[0].Text, e.Reported+", refused")
		assert.Contains(t, e.Compared[1].Text, e.Value)
		assert.Contains(t, e.Compared[2].Text, "900 ms")
		var b strings.Builder
		Print(&b, list)
		assert.Contains(t, b.String(), "refused   the engine's "+e.Reported)
		assert.Contains(t, b.String(), "the same")
	}
	assert.True(t, found)
}

// TestWrongValueIsTold: what the rule does not give is said to be so.
func TestWrongValueIsTold(t *testing.T) {
	kept, raw := fixture(t, "traces-retraction-tp2")
	span := kept.Roots()[0]
	span.Attributes().PutDouble(sglang.AttrLatencyInQueue, 7)
	list, err := Matching(All(NewView(span, kept, raw), kept, 0), "time_in_queue")
	require.NoError(t, err)
	assert.False(t, *list[0].Agrees)
	var b strings.Builder
	List(&b, list)
	assert.Contains(t, b.String(), "✗ computed: ")
	b.Reset()
	Print(&b, list)
	assert.Contains(t, b.String(), "this is not what the rule gives")
	_, err = Matching(list, "no such thing")
	require.ErrorContains(t, err, "no such thing")
}

// TestDefinitions: how often-confused latencies are defined is said where they are explained.
func TestDefinitions(t *testing.T) {
	tpot, _ := find(onRoot, sglang.AttrOutTPOT)
	assert.Contains(t, tpot.text, "without queue and prefill")
	assert.Contains(t, tpot.text, "mean gap between chunks")
	itl, _ := find(onDecode, sglang.AttrITL)
	assert.Contains(t, itl.text, "(output tokens - 1)")
}
