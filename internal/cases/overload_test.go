// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/engine"
	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// TestTTFTHasTheWait: under overload the page's time to first token is the clients',
// the wait in the queue included.
func TestTTFTHasTheWait(t *testing.T) {
	loop := clock.NewVirtual(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	a := args.Default()
	a.EnableMetrics, a.MaxRunningRequests = true, 4
	a.Load = "burst:burst=60,every=20s,abort=0,for=60s"
	e, err := engine.New(t.Context(), a, engine.Options{Loop: loop})
	require.NoError(t, err)
	e.Start()
	loop.RunUntil(5 * time.Minute)
	e.Settle()
	report := e.Clients.Results.Report()

	// A client sees the first token of a stream only.
	var sum, waited, count float64
	for _, f := range e.Page.Store().Gather() {
		for _, m := range f.GetMetric() {
			switch {
			case f.GetName() == string(sglang.FamilyTimeToFirstTokenSeconds) && streamed(m):
				sum += m.GetHistogram().GetSampleSum()
				count += float64(m.GetHistogram().GetSampleCount())
			case f.GetName() == string(sglang.FamilyQueueTimeSeconds):
				waited += m.GetHistogram().GetSampleSum()
			}
		}
	}
	require.NoError(t, e.Shutdown(context.Background()))
	require.Positive(t, report.TTFT.Count)
	require.EqualValues(t, report.TTFT.Count, count)
	assert.Greater(t, waited, sum/2, "it is overloaded")
	assert.InEpsilon(t, report.TTFT.Mean, sum/count, 0.02)
}

func streamed(m *dto.Metric) bool {
	return slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool {
		return l.GetName() == "is_streaming" && strings.EqualFold(l.GetValue(), "true")
	})
}
