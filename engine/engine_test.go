// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
	"github.com/otelcol-sglang/otelcol-sglang/engine/trace"
	"github.com/otelcol-sglang/otelcol-sglang/engine/truth"
)

// epoch is when virtual engines start.
var epoch = time.Unix(1_800_000_000, 0)

// rig is an engine on a virtual clock.
type rig struct {
	*Engine
	loop    *clock.Loop
	spans   *trace.Recorder
	records []*truth.Record
}

func newRig(t testing.TB, change func(a *args.Args)) *rig {
	t.Helper()
	r := &rig{loop: clock.NewVirtual(epoch), spans: trace.NewRecorder()}
	a := args.Default()
	a.EnableMetrics, a.EnableTrace, a.TPSize = true, true, 2
	change(&a)
	var err error
	r.Engine, err = New(context.Background(), a, Options{
		Loop: r.loop, Spans: r.spans, Truth: func(x *truth.Record) { r.records = append(r.records, x) },
	})
	require.NoError(t, err)
	return r
}

// run lets the clients come and waits until all are served.
func (r *rig) run(t testing.TB, limit time.Duration) {
	t.Helper()
	over := false
	r.Clients.Over = func() { over = true }
	r.Start()
	for end := r.loop.Now() + limit; !over && r.loop.Now() < end; {
		r.loop.RunUntil(r.loop.Now() + time.Second)
		require.NoError(t, r.Check())
	}
	require.True(t, over, "%d requests still live", r.Front.Live())
	r.loop.RunUntil(r.loop.Now() + 5*time.Second)
	require.NoError(t, r.Shutdown(context.Background()))
}

func TestServes(t *testing.T) {
	r := newRig(t, func(a *args.Args) { a.Load = "chat:rate=20,count=200" })
	r.run(t, 10*time.Minute)
	rep := r.Clients.Results.Report()
	require.NoError(t, rep.WriteTable(t.Output()))
	assert.Equal(t, 200, rep.Finished+rep.Aborted)
	assert.Zero(t, rep.Failed, rep.FirstError)
	assert.Len(t, r.records, 200)
	assert.Zero(t, r.Front.Live())
}
