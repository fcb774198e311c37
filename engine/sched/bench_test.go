// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
	"github.com/otelcol-sglang/otelcol-sglang/engine/cost"
	"github.com/otelcol-sglang/otelcol-sglang/engine/dp"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/engine/memory"
)

// bench is an engine of 8 ranks with a load of 500 prompt and 60 output tokens per
// request, half of each prompt shared with one in 20 others.
func bench(b *testing.B, groups int, attention bool) {
	b.ReportAllocs()
	loop := clock.NewVirtual(time.Unix(0, 0))
	a := args.Default()
	a.TPSize, a.DPSize, a.EnableDPAttention = 8, groups, attention
	a.MaxRunningRequests = 1024 * groups
	a.MaxTotalTokens = 400000
	if !attention {
		a.TPSize = 8 / groups
	}
	model, err := cost.New(a.ModelProfile, a.TPSize, a.AttentionTPSize(), 1)
	require.NoError(b, err)
	var sync *dp.Sync
	if attention {
		sync = dp.NewSync(loop, model, groups)
	}
	ended := 0
	replicas := make([]dp.Replica, groups)
	for i := range groups {
		m, err := memory.New(&a, memory.Sizes{Tokens: a.MaxTotalTokens, BytesPerToken: 1024}, loop, ledger.NopRadix{}, ledger.NopStorage{})
		require.NoError(b, err)
		replicas[i], err = New(Config{
			Args: &a, Loop: loop, Memory: m, Cost: model, Sync: sync, Tracer: ledger.NopTracer{},
			Places:     []ledger.Place{{DPRank: i, TPRanks: []int{i}}},
			Collectors: []ledger.SchedulerCollector{ledger.NopScheduler{}},
			Output: func(r *ledger.Request) {
				if r.Finish != "" {
					ended++
				}
			},
		})
		require.NoError(b, err)
	}
	c, err := dp.NewController(dp.ControllerConfig{Method: dp.RoundRobin, Replicas: replicas, Loop: loop, Tracer: ledger.NopTracer{}})
	require.NoError(b, err)
	prompts := make([][]int32, 20)
	for i := range prompts {
		prompts[i] = tokens(i, 250)
	}
	const rate = 400 // requests per second of engine time
	sent := 0
	var arrive func()
	arrive = func() {
		r := ledger.NewRequest(fmt.Sprint("r", sent), ledger.KindGenerate)
		r.Prompt = append(append(make([]int32, 0, 500), prompts[sent%20]...), tokens(100+sent, 250)...)
		r.OutputLen, r.MaxTokens = 60, 60
		c.Dispatch(r)
		if sent++; sent < b.N {
			loop.After(time.Second/rate, arrive)
		}
	}
	b.ResetTimer()
	loop.At(0, arrive)
	for ended < b.N {
		loop.RunUntil(loop.Now() + time.Second)
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
	b.ReportMetric(float64(b.N)*60/b.Elapsed().Seconds(), "tokens/s")
	b.ReportMetric(loop.Now().Seconds()/b.Elapsed().Seconds(), "engine-s/s")
}

func BenchmarkTP8(b *testing.B)          { bench(b, 1, false) }
func BenchmarkDPAttention8(b *testing.B) { bench(b, 8, true) }
func BenchmarkDP4TP2(b *testing.B)       { bench(b, 4, false) }
