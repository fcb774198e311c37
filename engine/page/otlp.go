// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package page // import "github.com/otelcol-sglang/otelcol-sglang/engine/page"

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// exportTimeout bounds one export.
const exportTimeout = 10 * time.Second

// Metrics is what the page shows, as OTLP: names with the colon, cumulative since
// start.
func (s *Store) Metrics(start, at time.Time) pmetric.Metrics {
	md := pmetric.NewMetrics()
	sm := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty()
	t := times{pcommon.NewTimestampFromTime(start), pcommon.NewTimestampFromTime(at)}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, f := range s.order {
		if len(f.order) == 0 {
			continue
		}
		m := sm.Metrics().AppendEmpty()
		m.SetName(f.family.Name)
		setType(m, f.family.Type)
		for _, series := range f.order {
			series.point(m, t)
		}
	}
	return md
}

type times struct{ start, at pcommon.Timestamp }

func setType(m pmetric.Metric, t sglang.MetricType) {
	switch t {
	case sglang.TypeCounter:
		sum := m.SetEmptySum()
		sum.SetIsMonotonic(true)
		sum.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	case sglang.TypeHistogram:
		m.SetEmptyHistogram().SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	case sglang.TypeSummary:
		m.SetEmptySummary()
	default:
		m.SetEmptyGauge()
	}
}

func (s *storedSeries) point(m pmetric.Metric, t times) {
	switch m.Type() {
	case pmetric.MetricTypeHistogram:
		s.histogramPoint(m.Histogram().DataPoints().AppendEmpty(), t)
	case pmetric.MetricTypeSummary:
		p := m.Summary().DataPoints().AppendEmpty()
		p.SetStartTimestamp(t.start)
		p.SetTimestamp(t.at)
		p.SetCount(s.dist.count())
		p.SetSum(s.dist.sum.load())
		putLabels(p.Attributes(), s.labels)
	case pmetric.MetricTypeSum:
		p := m.Sum().DataPoints().AppendEmpty()
		p.SetStartTimestamp(t.start)
		s.numberPoint(p, t)
	default:
		s.numberPoint(m.Gauge().DataPoints().AppendEmpty(), t)
	}
}

func (s *storedSeries) numberPoint(p pmetric.NumberDataPoint, t times) {
	p.SetTimestamp(t.at)
	p.SetDoubleValue(s.value())
	putLabels(p.Attributes(), s.labels)
}

func (s *storedSeries) histogramPoint(p pmetric.HistogramDataPoint, t times) {
	p.SetStartTimestamp(t.start)
	p.SetTimestamp(t.at)
	p.ExplicitBounds().FromRaw(s.dist.bounds)
	p.SetSum(s.dist.sum.load())
	count := uint64(0)
	p.BucketCounts().EnsureCapacity(len(s.dist.counts))
	for i := range s.dist.counts {
		n := s.dist.counts[i].Load()
		count += n
		p.BucketCounts().Append(n)
	}
	p.SetCount(count)
	putLabels(p.Attributes(), s.labels)
}

func putLabels(attrs pcommon.Map, labels []Label) {
	attrs.EnsureCapacity(len(labels))
	for _, l := range labels {
		attrs.PutStr(l.Name, l.Value)
	}
}

// Exporter sends what a page shows over OTLP/gRPC, without encryption.
type Exporter struct {
	store    *Store
	conn     *grpc.ClientConn
	client   pmetricotlp.GRPCClient
	resource map[string]string
	// start in Unix nanoseconds.
	start  atomic.Int64
	failed atomic.Uint64
}

// NewExporter connects to host:port when it first sends. The resource says whose
// metrics they are, start since when they count.
func NewExporter(store *Store, endpoint string, resource map[string]string, start time.Time) (*Exporter, error) {
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("OTLP metrics endpoint: %w", err)
	}
	e := &Exporter{store: store, conn: conn, client: pmetricotlp.NewGRPCClient(conn), resource: resource}
	e.Restarted(start)
	return e, nil
}

// Restarted says that the page counts from zero again since then.
func (e *Exporter) Restarted(at time.Time) { e.start.Store(at.UnixNano()) }

// Failed is the number of exports that did not arrive. Nothing is sent again: the
// next export says all that the lost one did.
func (e *Exporter) Failed() uint64 { return e.failed.Load() }

// Export sends once, as of the time at.
func (e *Exporter) Export(ctx context.Context, at time.Time) error {
	md := e.store.Metrics(time.Unix(0, e.start.Load()), at)
	attrs := md.ResourceMetrics().At(0).Resource().Attributes()
	for k, v := range e.resource {
		attrs.PutStr(k, v)
	}
	ctx, cancel := context.WithTimeout(ctx, exportTimeout)
	defer cancel()
	if _, err := e.client.Export(ctx, pmetricotlp.NewExportRequestFromMetrics(md)); err != nil {
		e.failed.Add(1)
		return fmt.Errorf("OTLP metrics export: %w", err)
	}
	return nil
}

// Run exports every interval of real time until ctx is done, and then once more.
// now gives the time of the engine's clock.
func (e *Exporter) Run(ctx context.Context, interval time.Duration, now func() time.Time) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			_ = e.Export(context.WithoutCancel(ctx), now())
			return
		case <-ticker.C:
			_ = e.Export(ctx, now())
		}
	}
}

// Close ends the connection.
func (e *Exporter) Close() error { return e.conn.Close() }
