// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaiprocessor

import (
	"fmt"
	"strings"
	"testing"

	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/pdatatest/ptracetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// secret is in each value that must not leave.
const secret = "what the user wrote"

// patched puts a user's text on all spans, events, links and resources, as a changed
// engine or a careless library would. It returns the number of attributes.
func patched(batches []ptrace.Traces, keys ...string) (put int) {
	write := func(attrs pcommon.Map) {
		for _, key := range keys {
			attrs.PutStr(key, secret)
			put++
		}
	}
	eachSpan(batches, func(_ ptrace.ResourceSpans, _ ptrace.ScopeSpans, s ptrace.Span) {
		write(s.Attributes())
		for _, event := range s.Events().All() {
			write(event.Attributes())
		}
		for _, link := range s.Links().All() {
			write(link.Attributes())
		}
	})
	return put
}

func textOf(t *testing.T, batches []ptrace.Traces) string {
	t.Helper()
	raw, err := new(ptrace.JSONMarshaler).MarshalTraces(mergeAll(clone(batches)))
	require.NoError(t, err)
	return string(raw)
}

// TestStrip: a patched engine's prompts and users do not leave, nor do they change
// anything else.
func TestStrip(t *testing.T) {
	const name = "traces-unified-tp1-level3"
	for _, mode := range []string{decodeLoopFold, decodeLoopKeep} {
		run(t, mode, func(t *testing.T) {
			change := func(c *Config) { c.DecodeLoop = mode }
			plain, r := newRig(t, nil, change), newRig(t, nil, change)
			plain.send(loadCapture(t, name)...)
			in := loadCapture(t, name)
			put := patched(in, "gen_ai.prompt", "user.id", "sglang.request.text", "lora_name")
			r.send(in...)
			want, got := plain.spans(), r.spans()
			require.NotEmpty(t, want)
			require.NotContains(t, textOf(t, r.sink.AllTraces()), secret)
			assert.EqualValues(t, put, r.total("stripped_attributes", strippedUnknown))
			assert.Zero(t, plain.total("stripped_attributes", ""), "the engine as it ships loses nothing")
			require.Len(t, got, len(want))
			require.NoError(t, ptracetest.CompareTraces(mergeAll(plain.sink.AllTraces()), mergeAll(r.sink.AllTraces()),
				ptracetest.IgnoreResourceSpansOrder()))
			plain.close()
			r.close()
		})
	}
}

// TestStripTwice: what a tier writes passes the next one.
func TestStripTwice(t *testing.T) {
	for _, name := range captureNames(t) {
		run(t, name, func(t *testing.T) {
			first, second := newRig(t, nil, nil), newRig(t, nil, nil)
			first.send(reduceRanks(loadCapture(t, name))...)
			first.spans()
			second.send(first.sink.AllTraces()...)
			second.spans()
			assert.Zero(t, second.total("stripped_attributes", ""))
			first.close()
			second.close()
		})
	}
}

// others is a batch of a library beside the engine.
func others(scope string) ptrace.Traces {
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr("service.name", "app")
	rs.Resource().Attributes().PutStr("process.command_args", secret)
	ss := rs.ScopeSpans().AppendEmpty()
	ss.Scope().SetName(scope)
	ss.Scope().Attributes().PutStr("user.id", secret)
	s := ss.Spans().AppendEmpty()
	s.SetName("POST")
	s.SetTraceID(pcommon.TraceID{1})
	s.SetSpanID(pcommon.SpanID{1})
	for _, key := range []string{"gen_ai.prompt.0.content", "enduser.id", "http.request.header.authorization"} {
		s.Attributes().PutStr(key, secret)
	}
	s.Attributes().PutStr("http.request.method", "POST")
	s.Attributes().PutStr("app.anything", "stays")
	message := s.Events().AppendEmpty()
	message.SetName("gen_ai.user.message")
	message.Attributes().PutStr("content", secret)
	other := s.Events().AppendEmpty()
	other.SetName("exception")
	other.Attributes().PutStr("exception.type", "ValueError")
	other.Attributes().PutStr("user.email", secret)
	s.Links().AppendEmpty().Attributes().PutStr("gen_ai.input.messages", secret)
	return td
}

// TestStripOthers: spans of others pass, without content.
func TestStripOthers(t *testing.T) {
	for _, scope := range []string{"my.app", sglang.VLLMScopePrefix + ".llm_engine"} {
		run(t, scope, func(t *testing.T) {
			r := newRig(t, nil, nil)
			r.send(others(scope))
			s := r.spans()[0]
			require.NotContains(t, textOf(t, r.sink.AllTraces()), secret)
			assert.Equal(t, map[string]any{"http.request.method": "POST", "app.anything": "stays"}, s.Attributes().AsRaw())
			assert.Equal(t, map[string]any{"exception.type": "ValueError"}, s.Events().At(1).Attributes().AsRaw())
			assert.EqualValues(t, 8, r.total("stripped_attributes", strippedContent))
			r.close()
		})
	}
}

func TestStripAllowed(t *testing.T) {
	for name, tt := range map[string]struct {
		allow []string
		want  []string
	}{
		"none":   {nil, nil},
		"exact":  {[]string{"lora_name"}, []string{"lora_name"}},
		"prefix": {[]string{"acme.*"}, []string{"acme.a", "acme.b.c"}},
		"all":    {[]string{"*"}, []string{"lora_name", "acme.a", "acme.b.c", "user.id"}},
	} {
		run(t, name, func(t *testing.T) {
			r := newRig(t, nil, func(c *Config) { c.Attributes.Allow = tt.allow })
			in := plainStory(finished(10)).end()
			patched([]ptrace.Traces{in}, "lora_name", "acme.a", "acme.b.c", "user.id")
			r.send(in, others("my.app"))
			for _, s := range r.spans() {
				var left []string
				for key, v := range s.Attributes().All() {
					if v.AsString() == secret && !strings.HasPrefix(s.Name(), "POST") {
						left = append(left, key)
					}
				}
				if s.Name() != "POST" {
					assert.ElementsMatch(t, tt.want, left, s.Name())
				}
			}
			if name == "all" {
				assert.Zero(t, r.total("stripped_attributes", ""))
			}
			r.close()
		})
	}
}

// TestStripLog: an attribute is named once, its values never, and strangers cannot
// fill the log.
func TestStripLog(t *testing.T) {
	core, logs := observer.New(zapcore.DebugLevel)
	run(t, "", func(t *testing.T) {
		r := newRig(t, nil, nil)
		r.p.strip.logger = zap.New(core)
		for i := range 3 * maxNamed {
			in := plainStory(finished(10)).end()
			patched([]ptrace.Traces{in}, "again", fmt.Sprint(strings.Repeat("long", maxText), i), fmt.Sprint("key", i))
			r.send(in)
		}
		r.close()
	})
	assert.Equal(t, maxNamed, logs.Len())
	assert.Equal(t, 1, logs.FilterField(zap.String("attribute", "again")).Len())
	for _, entry := range logs.All() {
		assert.Equal(t, zapcore.WarnLevel, entry.Level)
		for _, field := range entry.Context {
			assert.LessOrEqual(t, len(field.String), maxText)
			assert.NotContains(t, field.String, secret)
		}
	}
}

// BenchmarkStrip is what it costs to look at a span that keeps all it has.
func BenchmarkStrip(b *testing.B) {
	p := benchProcessor(b, nil)
	story := plainStory(finished(10))
	story.steps(9, 200, 50)
	batch := story.end()
	b.ReportAllocs()
	for b.Loop() {
		eachSpan([]ptrace.Traces{batch}, func(_ ptrace.ResourceSpans, _ ptrace.ScopeSpans, s ptrace.Span) { p.strip.engine(s) })
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(batch.SpanCount()), "ns/span")
}
