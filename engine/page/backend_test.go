// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// recorder is a backend that keeps what the collectors write.
type recorder map[string][]float64

type instrument struct {
	to  recorder
	key string
}

func (r instrument) Add(v float64) { r.to[r.key] = append(r.to[r.key], v) }
func (r instrument) Set(v float64) { r.to[r.key] = append(r.to[r.key], v) }
func (r instrument) Observe(v float64, n uint64) {
	r.to[r.key] = append(r.to[r.key], v, float64(n))
}

func (r recorder) of(s Series) instrument {
	key := s.Family.Name
	for _, l := range s.Labels {
		if l.Name == sglang.LabelTPRank || l.Name == sglang.LabelMode {
			key += " " + l.Value
		}
	}
	return instrument{r, key}
}

func (r recorder) Counter(s Series) Counter     { return r.of(s) }
func (r recorder) Gauge(s Series) Gauge         { return r.of(s) }
func (r recorder) Histogram(s Series) Histogram { return r.of(s) }

// The collectors don't know where their numbers go.
func TestInjectedBackend(t *testing.T) {
	a := testArgs()
	a.TPSize, a.StepJitter = 2, 0
	got := recorder{}
	p, err := New(Config{Args: a, Backend: got})
	require.NoError(t, err)
	assert.Nil(t, p.Store())
	e := &engine{t: t, page: p}
	e.boot()
	clear(got)
	e.schedulers[0].QueueTime(2 * time.Second)
	e.schedulers[0].Pass(sglang.PassPrefillNone)
	e.schedulers[0].Pass(sglang.PassDecodeGraph)
	e.tokenizer.InterToken(request(true), time.Second, 4)
	assert.Equal(t, recorder{
		"sglang:queue_time_seconds 0":                        {2, 1},
		"sglang:queue_time_seconds 1":                        {2, 1},
		"sglang:cuda_graph_passes_total prefill_none 0":      {1},
		"sglang:cuda_graph_passes_total decode_cuda_graph 0": {1},
		"sglang:cuda_graph_passes_total decode_cuda_graph 1": {1},
		"sglang:inter_token_latency_seconds":                 {0.25, 4},
	}, got)
}
