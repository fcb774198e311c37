// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaiprocessor // import "github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor"

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/latency"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/metadata"
)

// telemetry are the processor's own counters.
type telemetry struct {
	builder *metadata.TelemetryBuilder

	early, late, duplicates, pdHalves, lostSteps, lostSpans, stripped *labelled
	roots, invalid, unknown, withoutRanks                             *labelled
	suspect, noRoot, folded, dropped, refused, retries                plain
}

func newTelemetry(set component.TelemetrySettings) (*telemetry, error) {
	b, err := metadata.NewTelemetryBuilder(set)
	if err != nil {
		return nil, err
	}
	return &telemetry{
		builder:      b,
		roots:        by(b.ProcessorGenaiRoots, "completeness", "engine"),
		unknown:      by(b.ProcessorGenaiUnknownValues, "attribute", "reason", "engine"),
		withoutRanks: by(b.ProcessorGenaiRequestsWithoutRanks, "engine"),
		early:        by(b.ProcessorGenaiEarlyReleases, "reason"),
		late:         by(b.ProcessorGenaiLateSpans, "kind"),
		duplicates:   by(b.ProcessorGenaiDuplicateSpans, "kind"),
		pdHalves:     by(b.ProcessorGenaiPdHalves, "outcome"),
		lostSteps:    by(b.ProcessorGenaiLostSteps, "reason"),
		lostSpans:    by(b.ProcessorGenaiLostSpans, "reason"),
		stripped:     by(b.ProcessorGenaiStrippedAttributes, "reason"),
		invalid:      by(b.ProcessorGenaiInvalidValues, "attribute", "reason"),
		suspect:      plain{b.ProcessorGenaiSuspectTtft},
		noRoot:       plain{b.ProcessorGenaiRequestsWithoutRoot},
		folded:       plain{b.ProcessorGenaiFoldedSteps},
		dropped:      plain{b.ProcessorGenaiDroppedSteps},
		refused:      plain{b.ProcessorGenaiRefusedBatches},
		retries:      plain{b.ProcessorGenaiSendRetries},
	}, nil
}

type plain struct{ counter metric.Int64Counter }

func (c plain) add(n int64) {
	if n > 0 {
		c.counter.Add(context.Background(), n)
	}
}

// labelled is a counter by up to three attributes with few values each.
type labelled struct {
	counter metric.Int64Counter
	keys    []attribute.Key
	mu      sync.RWMutex
	sets    map[values][]metric.AddOption // guarded by mu
}

type values [3]string

// by makes a counter that is told apart by the keys.
func by(counter metric.Int64Counter, keys ...attribute.Key) *labelled {
	return &labelled{counter: counter, keys: keys, sets: make(map[values][]metric.AddOption)}
}

func (c *labelled) add(value string, n int64) { c.addAll(values{value}, n) }

func (c *labelled) addAll(v values, n int64) {
	if n > 0 {
		c.counter.Add(context.Background(), n, c.options(v)...)
	}
}

// options are made once per values: to make them costs more than to count.
func (c *labelled) options(v values) []metric.AddOption {
	c.mu.RLock()
	options, ok := c.sets[v]
	c.mu.RUnlock()
	if ok {
		return options
	}
	attrs := make([]attribute.KeyValue, 0, len(v))
	for i, key := range c.keys {
		attrs = append(attrs, key.String(v[i]))
	}
	options = []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(attrs...))}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sets[v] = options
	return options
}

func (t *telemetry) refusal(r latency.Refusal) {
	t.invalid.addAll(values{r.Attribute, string(r.Reason)}, 1)
}

// observe registers the gauges.
func (p *genaiProcessor) observe() error {
	b := p.tel.builder
	if err := b.RegisterProcessorGenaiHeldBytesCallback(func(_ context.Context, o metric.Int64Observer) error {
		o.Observe(p.heldBytes.Load() + int64(p.out.held()))
		return nil
	}); err != nil {
		return err
	}
	if err := b.RegisterProcessorGenaiHeldRootsCallback(func(_ context.Context, o metric.Int64Observer) error {
		o.Observe(int64(p.heldRoots()))
		return nil
	}); err != nil {
		return err
	}
	if err := b.RegisterProcessorGenaiOpenRequestsCallback(func(_ context.Context, o metric.Int64Observer) error {
		for engine, open := range p.open() {
			o.Observe(open.requests, engineOption(engine))
		}
		return nil
	}); err != nil {
		return err
	}
	return b.RegisterProcessorGenaiOldestOpenRequestAgeCallback(func(_ context.Context, o metric.Float64Observer) error {
		for engine, open := range p.open() {
			age := 0.0
			if open.requests > 0 {
				age = p.clock.Now().Sub(open.since).Seconds()
			}
			o.Observe(age, engineOption(engine))
		}
		return nil
	})
}

func engineOption(engine string) metric.ObserveOption {
	return metric.WithAttributes(attribute.String("engine", engine))
}

type openRequests struct {
	requests int64
	since    time.Time
}

// open sums the open requests up per engine. An engine without any shows 0 as
// long as it is known.
func (p *genaiProcessor) open() map[string]openRequests {
	out, now := make(map[string]openRequests), p.clock.Now()
	for i := range p.shards {
		s := &p.shards[i]
		s.mu.Lock()
		s.table.Open(now, func(engine string, n int, since time.Time) {
			o := out[engine]
			if o.requests == 0 || since.Before(o.since) {
				o.since = since
			}
			o.requests += int64(n)
			out[engine] = o
		})
		s.mu.Unlock()
	}
	p.enginesMu.Lock()
	defer p.enginesMu.Unlock()
	for engine, last := range p.engines {
		_, open := out[engine]
		switch {
		case open:
		case now.Sub(time.Unix(last.Load(), 0)) > p.engineAge:
			delete(p.engines, engine)
		default:
			out[engine] = openRequests{}
		}
	}
	return out
}

func (p *genaiProcessor) heldRoots() int {
	n := p.out.len()
	for i := range p.shards {
		p.shards[i].mu.Lock()
		n += p.shards[i].table.Roots()
		p.shards[i].mu.Unlock()
	}
	p.joinMu.Lock()
	waiting, _ := p.join.Len()
	p.joinMu.Unlock()
	return n + waiting
}
