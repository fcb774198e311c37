// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sink

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/bench/internal/load"
	"github.com/otelcol-sglang/otelcol-sglang/bench/internal/send"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

func TestCount(t *testing.T) {
	td := ptrace.NewTraces()
	spans := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
	spans.AppendEmpty().SetParentSpanID([8]byte{1})
	spans.AppendEmpty()
	spans.AppendEmpty().Attributes().PutDouble(sglang.AttrOutTPOT, 1)
	whole := spans.AppendEmpty().Attributes()
	whole.PutDouble(sglang.AttrOutTPOT, 1)
	whole.PutDouble(sglang.AttrBudgetPrefix+"decode", 1)
	whole.PutDouble(sglang.AttrBudgetPrefix+"queue", 1)
	assert.Equal(t, Counts{Spans: 4, Roots: 3, Timed: 2, Budgets: 1}, count(td))
}

func TestSub(t *testing.T) {
	assert.Equal(t, Counts{1, 2, 3, 4, 5, 6}, Counts{2, 4, 6, 8, 10, 12}.Sub(Counts{1, 2, 3, 4, 5, 6}))
}

// TestServe: a load that is sent to the sink itself comes whole.
func TestServe(t *testing.T) {
	l, err := load.Make(load.Shape{
		TP: 2, Slots: 2, Requests: 4, MinTokens: 3, MaxTokens: 6,
		Step: time.Millisecond, BatchSpans: 8, Delay: 2 * time.Millisecond,
	}, time.Now())
	require.NoError(t, err)
	ask, in := io.Pipe()
	out, answer := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- Serve(ask, answer) }() // in the tool it is another process
	lines := bufio.NewReader(out)
	address, err := lines.ReadString('\n')
	require.NoError(t, err)

	conns, err := send.Dial(strings.TrimSpace(address), len(l.Processes))
	require.NoError(t, err)
	defer conns.Close()
	_, err = conns.Send(t.Context(), l)
	require.NoError(t, err)

	_, err = fmt.Fprintln(in)
	require.NoError(t, err)
	line, err := lines.ReadBytes('\n')
	require.NoError(t, err)
	var got Counts
	require.NoError(t, json.Unmarshal(line, &got))
	calls := 0
	for _, batches := range l.Processes {
		calls += len(batches)
	}
	assert.Equal(t, calls, got.Calls)
	assert.Equal(t, l.Spans, got.Spans)
	assert.Equal(t, l.Requests, got.Roots)
	assert.Equal(t, l.Bytes+5*calls, got.Bytes, "gRPC puts 5 bytes before each message")
	require.NoError(t, in.Close())
	require.NoError(t, <-done)
}
