// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/pdatatest/ptracetest"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/otelcol-sglang/otelcol-sglang/internal/capture"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor"
	"github.com/otelcol-sglang/otelcol-sglang/receiver/sglangreceiver"
)

const capturesDir = "../../testdata/captures/traces"

var update = flag.Bool("update", false, "rewrite the golden files")

// config fills a factory's default configuration.
func config(t *testing.T, f component.Factory, settings map[string]any) component.Config {
	t.Helper()
	cfg := f.CreateDefaultConfig()
	require.NoError(t, confmap.NewFromStringMap(settings).Unmarshal(cfg))
	return cfg
}

func process(t *testing.T, f processor.Factory, settings map[string]any, next consumer.Traces) processor.Traces {
	t.Helper()
	p, err := f.CreateTraces(context.Background(), processortest.NewNopSettings(f.Type()), config(t, f, settings), next)
	require.NoError(t, err)
	run(t, p)
	return p
}

func run(t *testing.T, c component.Component) {
	t.Helper()
	require.NoError(t, c.Start(context.Background(), componenttest.NewNopHost()))
	t.Cleanup(func() { require.NoError(t, c.Shutdown(context.Background())) })
}

// collector is the traces pipeline of config/agent.yaml, with short waits and
// on ports of its own.
type collector struct {
	grpc, http string
	sink       *consumertest.TracesSink
}

func startCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{grpc: freeAddress(t), http: freeAddress(t), sink: &consumertest.TracesSink{}}
	genai := process(t, genaiprocessor.NewFactory(), map[string]any{"wait": "5s", "pd_wait": "5s"}, c.sink)
	dedup := process(t, rankdedupprocessor.NewFactory(), map[string]any{"wait": "500ms"}, genai)
	f := sglangreceiver.NewFactory()
	r, err := f.CreateTraces(context.Background(), receivertest.NewNopSettings(f.Type()), config(t, f, map[string]any{
		"protocols": map[string]any{
			"grpc": map[string]any{"endpoint": c.grpc},
			"http": map[string]any{"endpoint": c.http},
		},
	}), dedup)
	require.NoError(t, err)
	run(t, r)
	return c
}

// send exports a batch on a connection of its own process.
type send func(td ptrace.Traces) error

func overGRPC(t *testing.T, c *collector) send {
	t.Helper()
	conn, err := grpc.NewClient(c.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	client := ptraceotlp.NewGRPCClient(conn)
	return func(td ptrace.Traces) error {
		_, err := client.Export(context.Background(), ptraceotlp.NewExportRequestFromTraces(td))
		return err
	}
}

func overHTTP(t *testing.T, c *collector) send {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	return func(td ptrace.Traces) error {
		body, err := ptraceotlp.NewExportRequestFromTraces(td).MarshalProto()
		if err != nil {
			return err
		}
		resp, err := client.Post("http://"+c.http+"/v1/traces", "application/x-protobuf", bytes.NewReader(body))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		if err == nil && resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("status %s", resp.Status)
		}
		return err
	}
}

// TestCaptures: every capture goes through receiver and processors, each process
// on its own connection, and leaves as the reviewed golden file says.
func TestCaptures(t *testing.T) {
	names, err := capture.Names(capturesDir)
	require.NoError(t, err)
	for _, name := range names {
		exports, err := capture.Load(capturesDir, name)
		require.NoError(t, err)
		for protocol, connect := range map[string]func(*testing.T, *collector) send{"grpc": overGRPC, "http": overHTTP} {
			t.Run(name+"/"+protocol, func(t *testing.T) {
				t.Parallel()
				out := through(t, exports, connect)
				golden := filepath.Join("testdata", strings.TrimPrefix(name, "traces-")+".jsonl")
				if *update && protocol == "grpc" {
					write(t, golden, out)
				}
				require.NoError(t, ptracetest.CompareTraces(read(t, golden), out,
					ptracetest.IgnoreResourceAttributeValue(sglang.AttrEngineID)))
			})
		}
	}
}

// through sends a capture and returns what left once every root has.
func through(t *testing.T, exports []capture.Export, connect func(*testing.T, *collector) send) ptrace.Traces {
	t.Helper()
	c := startCollector(t)
	processes := map[string]send{}
	roots := 0
	for _, e := range exports {
		if processes[e.Peer] == nil {
			processes[e.Peer] = connect(t, c)
		}
		td := ptrace.NewTraces()
		e.Traces.CopyTo(td)
		roots += count(td, sglang.KindRoot)
		require.NoError(t, processes[e.Peer](td))
	}
	left := func() (n int) {
		for _, td := range c.sink.AllTraces() {
			n += count(td, sglang.KindRoot)
		}
		return n
	}
	require.Eventually(t, func() bool { return left() >= roots }, 30*time.Second, 20*time.Millisecond)
	// What is too many would come within the waits.
	require.Never(t, func() bool { return left() > roots }, 1200*time.Millisecond, 50*time.Millisecond)
	return sorted(c.sink.AllTraces())
}

func count(td ptrace.Traces, kind sglang.SpanKind) (n int) {
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				if sglang.KindOf(s) == kind {
					n++
				}
			}
		}
	}
	return n
}

// sorted puts all spans of a resource together, by start and id, so that batches
// don't matter.
func sorted(tds []ptrace.Traces) ptrace.Traces {
	out := ptrace.NewTraces()
	byResource := map[string]ptrace.ScopeSpans{}
	for _, td := range tds {
		for _, rs := range td.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				key := resourceKey(rs.Resource())
				into, known := byResource[key]
				if !known {
					to := out.ResourceSpans().AppendEmpty()
					rs.Resource().CopyTo(to.Resource())
					to.Resource().Attributes().PutStr(sglang.AttrEngineID, "any")
					into = to.ScopeSpans().AppendEmpty()
					ss.Scope().CopyTo(into.Scope())
					byResource[key] = into
				}
				for _, s := range ss.Spans().All() {
					s.CopyTo(into.Spans().AppendEmpty())
				}
			}
		}
	}
	for _, ss := range byResource {
		ss.Spans().Sort(func(a, b ptrace.Span) bool { return before(a, b) < 0 })
	}
	out.ResourceSpans().Sort(func(a, b ptrace.ResourceSpans) bool {
		return resourceKey(a.Resource()) < resourceKey(b.Resource())
	})
	return out
}

func before(a, b ptrace.Span) int {
	return cmp.Or(
		cmp.Compare(a.StartTimestamp(), b.StartTimestamp()),
		cmp.Compare(a.SpanID().String(), b.SpanID().String()),
	)
}

// resourceKey names a resource by its attributes, without the engine's id, which
// depends on ports.
func resourceKey(res pcommon.Resource) string {
	raw := res.Attributes().AsRaw()
	delete(raw, sglang.AttrEngineID)
	keys := make([]string, 0, len(raw))
	for k, v := range raw {
		keys = append(keys, fmt.Sprintf("%s=%v", k, v))
	}
	slices.Sort(keys)
	return strings.Join(keys, ",")
}

// write stores one resource per line.
func write(t *testing.T, path string, td ptrace.Traces) {
	t.Helper()
	var text bytes.Buffer
	marshaler := &ptrace.JSONMarshaler{}
	for _, rs := range td.ResourceSpans().All() {
		one := ptrace.NewTraces()
		rs.CopyTo(one.ResourceSpans().AppendEmpty())
		line, err := marshaler.MarshalTraces(one)
		require.NoError(t, err)
		text.Write(line)
		text.WriteByte('\n')
	}
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
	require.NoError(t, os.WriteFile(path, text.Bytes(), 0o600))
}

func read(t *testing.T, path string) ptrace.Traces {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	out := ptrace.NewTraces()
	require.NoError(t, capture.ReadTraces(f, func(td ptrace.Traces) error {
		td.ResourceSpans().MoveAndAppendTo(out.ResourceSpans())
		return nil
	}))
	return out
}
