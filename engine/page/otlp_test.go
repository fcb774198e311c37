// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// The OTLP metrics are the page's: what leaves the receiver's parser for the page is
// what leaves here, but for what the receiver leaves out.
func TestOTLPLikeThePage(t *testing.T) {
	e := engineOf(t, everythingOn)
	everything(e)
	got := seriesOf([]pmetric.Metrics{e.page.store.Metrics(time.Unix(1, 0), time.Unix(2, 0))})
	series := 0
	for _, f := range e.page.store.Gather() {
		series += len(f.Metric)
		if f.Metric[0].Summary != nil {
			series -= len(f.Metric) // seriesOf has none
		}
	}
	assert.Len(t, got, series)
	md := e.page.store.Metrics(time.Unix(1, 0), time.Unix(2, 0))
	for _, m := range md.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().All() {
		f, ok := sglang.FamilyOf(m.Name())
		require.True(t, ok, m.Name())
		switch f.Type {
		case sglang.TypeCounter:
			d := m.Sum().DataPoints().At(0)
			assert.True(t, m.Sum().IsMonotonic())
			assert.Equal(t, []int64{1, 2}, []int64{d.StartTimestamp().AsTime().Unix(), d.Timestamp().AsTime().Unix()})
		case sglang.TypeHistogram:
			d := m.Histogram().DataPoints().At(0)
			assert.Equal(t, d.ExplicitBounds().Len()+1, d.BucketCounts().Len(), m.Name())
		case sglang.TypeSummary:
			assert.Equal(t, uint64(1), m.Summary().DataPoints().At(0).Count())
		default:
			assert.Equal(t, pmetric.MetricTypeGauge, m.Type(), m.Name())
		}
	}
}

type metricsServer struct {
	pmetricotlp.UnimplementedGRPCServer
	got chan pmetric.Metrics
}

func (s *metricsServer) Export(_ context.Context, r pmetricotlp.ExportRequest) (pmetricotlp.ExportResponse, error) {
	s.got <- r.Metrics()
	return pmetricotlp.NewExportResponse(), nil
}

func TestExporter(t *testing.T) {
	defer goleak.VerifyNone(t)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv, server := grpc.NewServer(), &metricsServer{got: make(chan pmetric.Metrics, 10)}
	pmetricotlp.RegisterGRPCServer(srv, server)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(listener) }()

	e := engineOf(t, unified)
	e.started()
	x, err := NewExporter(e.page.Store(), listener.Addr().String(), map[string]string{"service.name": "sglang"}, time.Unix(1, 0))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan struct{})
	go func() {
		x.Run(ctx, time.Hour, func() time.Time { return time.Unix(2, 0) })
		close(ran)
	}()
	cancel()
	<-ran
	md := <-server.got
	name, _ := md.ResourceMetrics().At(0).Resource().Attributes().Get("service.name")
	assert.Equal(t, "sglang", name.Str())
	assert.Equal(t, 68, md.MetricCount())
	assert.Zero(t, x.Failed())

	srv.Stop()
	require.NoError(t, <-served)
	require.Error(t, x.Export(t.Context(), time.Unix(3, 0)))
	assert.EqualValues(t, 1, x.Failed())
	require.NoError(t, x.Close())
}
