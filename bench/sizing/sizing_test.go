// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNumbers(t *testing.T) {
	got, err := numbers("1,20")
	require.NoError(t, err)
	assert.Equal(t, []int{1, 20}, got)
	for _, text := range []string{"", "1,", "0", "-1", "a"} {
		_, err := numbers(text)
		assert.Error(t, err, "%q", text)
	}
}

func TestShapeLastsAsLongAsWanted(t *testing.T) {
	o := options{step: 10 * time.Millisecond, length: 35 * time.Second}
	s := o.longRequests(4)
	assert.Equal(t, 40, s.Requests, "4 at a time, 3.5 s each")
	assert.Equal(t, 1000, o.longRequests(100).Requests)
}

func TestSeries(t *testing.T) {
	assert.Equal(t, 2, series("# HELP x y\n# TYPE x gauge\nx 1\n\nx{a=\"b\"} 2\n# EOF\n"))
}

// TestRelay: what one side writes the other side gets, counted in one direction.
func TestRelay(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer server.Close()
	go func() {
		c, err := server.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = io.CopyN(c, c, 5)
	}()
	r, err := startRelay(server.Addr().String())
	require.NoError(t, err)
	defer r.Close()
	c, err := net.Dial("tcp", r.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Write([]byte("hello"))
	require.NoError(t, err)
	echo := make([]byte, 5)
	_, err = io.ReadFull(c, echo)
	require.NoError(t, err)
	assert.Equal(t, "hello", string(echo))
	assert.EqualValues(t, 5, r.bytes.Load())
}

func TestTables(t *testing.T) {
	runs := []tierRun{
		{Slots: 1, Requests: 10, SpansIn: 10_000, SpansOut: 90, Seconds: 10, In: 1_250_000, Between: 12_500, Agent: usage{0.1, 1 << 20}, Gateway: usage{0.01, 1 << 20}},
		{Slots: 2, Requests: 1010, SpansIn: 30_000, SpansOut: 9090, Seconds: 10, In: 3_750_000, Between: 37_500, Agent: usage{0.3, 2 << 20}, Gateway: usage{0.21, 3 << 20}},
	}
	o := options{}
	assert.Contains(t, o.agentTable(runs), "| 1 | 1000 | 1.0 | 0.10 | 1 | 1.0 | 0.01 | 0.0 |")
	assert.Contains(t, o.agentTable(runs), "Each 1 000 spans/s in cost 0.100 cores more")
	assert.Contains(t, o.gatewayTable(runs), "Each 100 requests/s cost 0.200 cores and 2 MiB more")
	pages := pageTable([]pageRun{{Engines: 1, SeriesIn: 1000}, {Engines: 2, SeriesIn: 2000, Agent: usage{0.5, 1 << 20}}})
	assert.Contains(t, pages, "Each 1 000 series in cost 0.5000 cores and 1.0 MiB more")
}
