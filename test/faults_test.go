// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/collector"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/engine"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/prometheus"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/sender"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/sink"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/spans"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/tool"
)

// stubborn is engines whose exporters send each batch until it is taken.
type stubborn struct {
	t        testing.TB
	endpoint string
	// paced is how long an engine takes for a run, 0 for as fast as it can.
	paced time.Duration
	// refused counts the attempts that failed.
	refused atomic.Int64
	done    sync.WaitGroup

	mu   sync.Mutex
	made []ptrace.Traces // guarded by mu
}

// run starts an engine that makes so many runs of a capture. Times are shifted by what
// clock says at each batch.
func (s *stubborn) run(name string, runs int, clock func() time.Duration) {
	s.t.Helper()
	exports, clients := sender.Load(s.t, name), map[string]ptraceotlp.GRPCClient{}
	for _, x := range exports {
		if clients[x.Peer] != nil {
			continue
		}
		conn, err := grpc.NewClient(s.endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
		require.NoError(s.t, err)
		s.t.Cleanup(func() { _ = conn.Close() })
		clients[x.Peer] = ptraceotlp.NewGRPCClient(conn)
	}
	first := sender.Earliest(exports).AsTime()
	s.done.Go(func() {
		for range runs {
			salt, began := rand.Uint64()>>1, time.Since(first)
			for _, x := range exports {
				td := sender.Salted(x.Traces, salt)
				move(td, began, clock)
				s.mu.Lock()
				s.made = append(s.made, td)
				s.mu.Unlock()
				s.insist(clients[x.Peer], td)
				if s.paced > 0 {
					<-time.After(s.paced / time.Duration(len(exports)))
				}
			}
		}
	})
}

// move shifts each moment by the clock's state: began, and what the clock says.
func move(td ptrace.Traces, began time.Duration, clock func() time.Duration) {
	by := func(at pcommon.Timestamp) pcommon.Timestamp {
		return at + pcommon.Timestamp(began+clock()) //nolint:gosec // wraps where it goes back
	}
	for s := range spans.All(td) {
		s.SetStartTimestamp(by(s.StartTimestamp()))
		s.SetEndTimestamp(by(s.EndTimestamp()))
		for _, e := range s.Events().All() {
			e.SetTimestamp(by(e.Timestamp()))
		}
	}
}

func onTime() time.Duration { return 0 }

// insist sends until the batch is taken, or outLimit is over.
func (s *stubborn) insist(to ptraceotlp.GRPCClient, td ptrace.Traces) {
	const timeout = 5 * time.Second
	if !tool.Until(2*outLimit, func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		_, err := to.Export(ctx, ptraceotlp.NewExportRequestFromTraces(td))
		if err != nil {
			s.refused.Add(1)
		}
		return err == nil
	}) {
		s.t.Errorf("a batch was not taken within %s", 2*outLimit)
	}
}

// tree is all that was made.
func (s *stubborn) tree() *spans.Tree {
	s.mu.Lock()
	defer s.mu.Unlock()
	return spans.TreeOf(s.made...)
}

// checkAll: whatever was made has left.
func (s *stubborn) checkAll(t *testing.T, backend *sink.Sink) {
	t.Helper()
	made := s.tree()
	assert.Empty(t, spans.Lost(made, made, spans.TreeOf(backend.Traces()...)))
	t.Logf("%d spans made, %d refusals, %d left", len(made.Spans), s.refused.Load(), backend.Count())
}

// TestFullDisk: the disk of the queue is full while the backend is away. Senders are
// refused, the collector lives, and when there is room again all of it leaves.
func TestFullDisk(t *testing.T) {
	const size, taken = 16, 12 // MiB
	dir := mount(t, size)
	filler := filepath.Join(dir, "filler")
	require.NoError(t, os.WriteFile(filler, make([]byte, taken<<20), 0o600))
	backend := sink.New(t)
	c := agent(t, backend, keepSteps+fmt.Sprintf("extensions: {file_storage: {directory: %q, compaction: {directory: %q}}}\n", dir, dir))
	s := &stubborn{t: t, endpoint: c.GRPC}
	for _, name := range trafficCaptures {
		s.run(name, 60, onTime)
	}
	require.True(t, until(func() bool { return s.refused.Load() > 10 }), "the disk does not get full")
	assert.False(t, c.Exited(), "a full disk is no reason to end")
	require.NoError(t, os.Remove(filler))
	backend.Start()
	s.done.Wait()
	c.Settle(outLimit)
	s.checkAll(t, backend)
}

// mount is a small file system of its own.
func mount(t *testing.T, mib int) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting a small disk takes root")
	}
	dir, image := t.TempDir(), filepath.Join(t.TempDir(), "image")
	require.NoError(t, os.WriteFile(image, nil, 0o600))
	require.NoError(t, os.Truncate(image, int64(mib)<<20))
	for _, command := range [][]string{{"mkfs.ext4", "-q", image}, {"mount", "-o", "loop", image, dir}} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Skipf("no small disk here: %v: %s", err, out)
		}
	}
	t.Cleanup(func() { assert.NoError(t, exec.Command("umount", dir).Run()) })
	return dir
}

// network is a TCP proxy whose connections can be slow, and cut.
type network struct {
	t        testing.TB
	address  string
	to       string
	listener net.Listener
	// delay is how long each piece takes.
	delay atomic.Int64

	mu    sync.Mutex
	conns []net.Conn // guarded by mu
	down  bool       // guarded by mu
}

func startNetwork(t *testing.T, to string) *network {
	t.Helper()
	n := &network{t: t, address: tool.Address(tool.FreePort(t)), to: to}
	n.listener = tool.Listen(t, n.address)
	go n.serve()
	t.Cleanup(func() { n.cut(); _ = n.listener.Close() })
	return n
}

func (n *network) serve() {
	for {
		from, err := n.listener.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", n.to)
		if err != nil {
			_ = from.Close()
			continue
		}
		n.mu.Lock()
		if n.down {
			_, _ = from.Close(), to.Close()
		}
		n.conns = append(n.conns, from, to)
		n.mu.Unlock()
		go n.copy(from, to)
		go n.copy(to, from)
	}
}

func (n *network) copy(to, from net.Conn) {
	defer to.Close()
	const piece = 4 << 10
	b := make([]byte, piece)
	for {
		count, err := from.Read(b)
		if err != nil {
			return
		}
		if delay := time.Duration(n.delay.Load()); delay > 0 {
			<-time.After(delay)
		}
		if _, err := to.Write(b[:count]); err != nil {
			return
		}
	}
}

// cut ends all connections, and those to come, until mend.
func (n *network) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = true
	for _, c := range n.conns {
		_ = c.Close()
	}
	n.conns = nil
}

func (n *network) mend() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = false
}

// TestNetwork: the network in front of the collector and behind it is cut in the middle
// of traffic, several times, and slow: 4 KiB take 5 ms. Nothing is lost.
func TestNetwork(t *testing.T) {
	t.Parallel()
	backend := sink.Start(t)
	behind := startNetwork(t, backend.Address)
	c := collector.Start(t, collector.Options{Config: "agent.yaml", Overlay: keepSteps, Env: []string{
		"OTLP_ENDPOINT=" + behind.address, "OTLP_INSECURE=true",
	}})
	front := startNetwork(t, c.GRPC)
	s := &stubborn{t: t, endpoint: front.address}
	front.delay.Store(int64(5 * time.Millisecond))
	behind.delay.Store(int64(5 * time.Millisecond))
	for _, name := range trafficCaptures {
		s.run(name, 4, onTime)
	}
	for _, n := range []*network{front, behind, front, behind} {
		had := s.refused.Load()
		n.cut()
		if n == front {
			require.True(t, until(func() bool { return s.refused.Load() > had }))
		} else {
			<-time.After(time.Second)
		}
		n.mend()
	}
	s.done.Wait()
	c.Settle(2 * outLimit)
	s.checkAll(t, backend)
}

// TestClockJump: the clock of the engine's host jumps by an hour, forwards and back, in
// the middle of requests. All spans leave within the processors' waits; no latency is
// negative, and requests before and after have theirs.
func TestClockJump(t *testing.T) {
	for name, jump := range map[string]time.Duration{"forwards": time.Hour, "back": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backend := sink.Start(t)
			c := agent(t, backend, keepSteps)
			s := &stubborn{t: t, endpoint: c.GRPC}
			const capture, runs = "traces-unified-tp4-level3", 3
			// In the middle of the second run.
			moments, sent := 0, 0
			for _, x := range sender.Load(t, capture) {
				moments += 2 * x.Traces.SpanCount()
			}
			s.run(capture, runs, func() time.Duration {
				if sent++; sent > moments+moments/2 {
					return jump
				}
				return 0
			})
			s.done.Wait()
			assert.Empty(t, c.Settle(outLimit).Losses())
			s.checkAll(t, backend)
			out, whole := spans.TreeOf(backend.Traces()...), 0
			for _, root := range out.Roots() {
				whole += checkPlausible(t, root)
			}
			assert.GreaterOrEqual(t, whole, 2*len(out.Roots())/runs, "requests that no jump met")
		})
	}
}

// checkPlausible: a root's latencies are no impossible numbers. It returns 1 if it has
// an E2E below a minute.
func checkPlausible(t *testing.T, root spans.Span) int {
	t.Helper()
	e2e, has := spans.Seconds(root, sglang.AttrLatencyE2E)
	for key, v := range root.Attributes().All() {
		if v.Type() != pcommon.ValueTypeDouble || !strings.HasPrefix(key, "gen_ai.latency.") && !strings.HasPrefix(key, sglang.AttrBudgetPrefix) {
			continue
		}
		assert.False(t, math.IsNaN(v.Double()) || v.Double() < 0, "%s is %v", key, v.Double())
		assert.True(t, !has || v.Double() <= e2e+1e-6, "%s is longer than the request: %v > %v", key, v.Double(), e2e)
	}
	if has && e2e < time.Minute.Seconds() {
		return 1
	}
	return 0
}

// TestMemoryLimit: the backend is away and the queue in memory, until the memory limiter
// refuses. When the backend is back the collector takes spans again, and nothing that
// senders insisted on is lost.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	const limit = 45 // MiB
	backend := sink.New(t)
	c := agent(t, backend, fmt.Sprintf(`
processors:
  memory_limiter: {check_interval: 200ms, limit_mib: %d, spike_limit_mib: 15}
  genai: {decode_loop: keep}
exporters: {otlp_grpc: {sending_queue: {storage: null, queue_size: 10000000000}}}
`, limit))
	s := &stubborn{t: t, endpoint: c.GRPC}
	for _, name := range trafficCaptures {
		s.run(name, 60, onTime)
	}
	require.True(t, until(func() bool { return s.refused.Load() > 10 }), "the limit is not reached")
	own, err := c.Telemetry()
	require.NoError(t, err)
	assert.Positive(t, own["processor_refused_items"]+own["processor_refused_spans"]+own["receiver_refused_spans"])
	assert.True(t, c.Healthy())
	backend.Start()
	s.done.Wait()
	c.Settle(2 * outLimit)
	s.checkAll(t, backend)
	_, peak := c.Memory()
	t.Logf("limit %d MiB, at most %d MiB resident", limit, peak>>20)
}

// TestOverload: ten times the engines that the backend can follow. Senders are refused
// while the queue is full, memory stays below the limit, and all of it leaves in the end.
func TestOverload(t *testing.T) {
	t.Parallel()
	backend := sink.Start(t)
	slow := startNetwork(t, backend.Address)
	slow.delay.Store(int64(2 * time.Millisecond)) // 2 MiB/s at most
	c := collector.Start(t, collector.Options{
		Config:  "agent.yaml",
		Overlay: keepSteps + "exporters: {otlp_grpc: {sending_queue: {queue_size: 1000000}, compression: none}}\n",
		Env:     []string{"OTLP_ENDPOINT=" + slow.address, "OTLP_INSECURE=true"},
	})
	s := &stubborn{t: t, endpoint: c.GRPC}
	for range 10 {
		for _, name := range trafficCaptures {
			s.run(name, 2, onTime)
		}
	}
	s.done.Wait()
	c.Settle(2 * outLimit)
	s.checkAll(t, backend)
	assert.Positive(t, s.refused.Load(), "no back-pressure")
	_, peak := c.Memory()
	assert.Less(t, peak, int64(memoryLimit))
	t.Logf("at most %d MiB", peak>>20)
}

// TestEngineRestart: an engine ends and another one takes its place, with its address,
// without requests, and with the counters of its page at zero.
func TestEngineRestart(t *testing.T) {
	t.Parallel()
	const before, after = "metrics-unified-tp1.t2", "metrics-unified-tp1.t1"
	backend := sink.Start(t)
	e := engine.Start(t, engine.Page(t, before))
	c := collector.Start(t, collector.Options{
		Config: "agent.yaml", Overlay: keepSteps + "receivers: {sglang: {collection_interval: 200ms}}\n",
		Env: append(backend.Env(), "ENGINE=http://"+e.Address),
	})
	const family = "sglang:prompt_tokens_total"
	sum := func(page string) (sum float64) {
		for _, v := range series(engine.Families(t, page)[family]) {
			sum += v
		}
		return sum
	}
	shows := func(want float64) bool {
		page, err := c.Page()
		return err == nil && strings.Contains(page, family+"{") && sum(page) == want
	}
	require.NotEqual(t, sum(engine.Page(t, before)), sum(engine.Page(t, after)))
	s := &stubborn{t: t, endpoint: c.GRPC}
	s.run("traces-unified-tp4-level3", 2, onTime)
	s.done.Wait()
	require.True(t, until(func() bool { return shows(sum(engine.Page(t, before))) }))
	e.Stop()
	require.True(t, until(func() bool { p, err := c.Page(); return err == nil && !strings.Contains(p, family+"{") }), "an engine that is gone leaves series behind")
	page := engine.Page(t, after)
	again := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, page) })}
	l := tool.Listen(t, e.Address)
	go func() { _ = again.Serve(l) }()
	t.Cleanup(func() { _ = again.Close() })
	// Other processes, so other senders.
	s.run("traces-unified-tp4-level3", 2, onTime)
	s.done.Wait()
	assert.True(t, until(func() bool { return shows(sum(engine.Page(t, after))) }))
	assert.Empty(t, c.Settle(outLimit).Losses())
	s.checkAll(t, backend)
	assert.Len(t, spans.TreeOf(backend.Traces()...).Roots(), len(s.tree().Roots()))
}

// TestLargePage is case 64: a page of 100 000 lines is scraped each second.
func TestLargePage(t *testing.T) {
	t.Parallel()
	const lines, scrapes, bound = 100_000, 3, 1 << 30
	var page strings.Builder
	page.WriteString("# HELP sglang:num_running_reqs Running.\n# TYPE sglang:num_running_reqs gauge\n")
	for i := range lines {
		fmt.Fprintf(&page, "sglang:num_running_reqs{engine_type=\"unified\",model_name=\"model-%d\",tp_rank=\"0\",pp_rank=\"0\"} %d\n", i, i)
	}
	e := engine.Start(t, page.String())
	backend := sink.Start(t)
	c := collector.Start(t, collector.Options{
		Config: "agent.yaml", Overlay: "receivers: {sglang: {collection_interval: 1s}}\n",
		Env: append(backend.Env(), "ENGINE=http://"+e.Address),
	})
	require.True(t, until(func() bool { return e.Scrapes() >= scrapes }), "%d scrapes", e.Scrapes())
	assert.True(t, until(func() bool {
		own, err := c.Telemetry()
		return err == nil && own["exporter_sent_metric_points"] >= lines
	}), "none of the page got through")
	assert.True(t, c.Healthy())
	_, peak := c.Memory()
	assert.Less(t, peak, int64(bound), "the memory limiter keeps it near its limit of 512 MiB")
	t.Logf("at most %d MiB", peak>>20)
}

// TestOutOfOrder is case 70: two collectors write one engine's series to the same
// Prometheus. It refuses what it has already; the collectors go on with what is newer.
func TestOutOfOrder(t *testing.T) {
	t.Parallel()
	e := engine.Start(t, engine.Page(t, "metrics-unified-tp1.t1"))
	server := prometheus.StartReceiver(t)
	backend := sink.Start(t)
	var all []*collector.Collector
	for range 2 {
		all = append(all, collector.Start(t, collector.Options{
			Config: "remote-write.yaml", Overlay: "receivers: {sglang: {collection_interval: 300ms}}\n",
			Env: append(backend.Env(), "ENGINE=http://"+e.Address, "REMOTE_WRITE_URL="+server.WriteURL()),
		}))
	}
	const expr = `count(sglang:num_running_reqs)`
	one, ok := server.Await(pageLimit, expr, func(s []prometheus.Sample) bool { return len(s) == 1 })
	require.True(t, ok)
	require.True(t, until(func() bool { return e.Scrapes() > 20 }))
	again, ok := server.Await(pageLimit, expr, func(s []prometheus.Sample) bool { return len(s) == 1 })
	require.True(t, ok)
	assert.Equal(t, one[0].Value, again[0].Value, "one series of each")
	for _, c := range all {
		assert.True(t, c.Healthy())
		assert.True(t, until(func() bool { own, err := c.Telemetry(); return err == nil && own["exporter_sent_metric_points"] > 0 }))
	}
	// Both at once in one configuration is a mistake that is told.
	out, err := exec.Command(tool.Binary(t, "otelcol-sglang"), "validate", "--config", filepath.Join(tool.Root(), "config", "remote-write.yaml"),
		"--config", "yaml:receivers::sglang::engines: [{endpoint: 'http://localhost:1'}, {endpoint: 'http://localhost:1'}]").CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(out), "must differ from that of engines[0]")
}

// TestCorruptQueue is case 68: the file of the queue is damaged while the collector is
// down. It ends at once and says why, or works as ever; with the file put aside it works,
// and only what was in that file is lost.
func TestCorruptQueue(t *testing.T) {
	const page = 4 << 10
	for name, damage := range map[string]func(t *testing.T, file string){
		"cut in the middle": func(t *testing.T, file string) {
			require.NoError(t, os.Truncate(file, size(t, file)/2/page*page))
		},
		"empty": func(t *testing.T, file string) { require.NoError(t, os.Truncate(file, 0)) },
		"no head": func(t *testing.T, file string) {
			overwrite(t, file, 0, 2*page)
		},
		"noise in the middle": func(t *testing.T, file string) {
			overwrite(t, file, size(t, file)/2, size(t, file)/4)
		},
		"noise but for the head": func(t *testing.T, file string) {
			overwrite(t, file, 2*page, size(t, file)-2*page)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backend := sink.New(t)
			c := agent(t, backend, keepSteps)
			before := &stubborn{t: t, endpoint: c.GRPC}
			before.run("traces-unified-tp4-level3", 3, onTime)
			before.done.Wait()
			c.Drain(outLimit)
			c.Stop()
			queues, err := filepath.Glob(filepath.Join(c.Dir, "exporter_otlp_grpc*"))
			require.NoError(t, err)
			require.Len(t, queues, 1)
			damage(t, queues[0])
			if !c.Starts() {
				require.True(t, c.Exited(), "it hangs")
				assert.Regexp(t, `invalid database|panic: assertion failed: Page expected`, c.Log())
				require.NoError(t, os.Rename(queues[0], queues[0]+".damaged"))
				c.Run()
			}
			backend.Start()
			after := &stubborn{t: t, endpoint: c.GRPC}
			after.run("traces-unified-tp4-level3", 2, onTime)
			after.done.Wait()
			c.Settle(outLimit)
			out := spans.TreeOf(backend.Traces()...)
			assert.Empty(t, spans.Lost(after.tree(), after.tree(), out), "it works as ever")
			lost := spans.Lost(before.tree(), before.tree(), out)
			t.Logf("%d of %d spans lost that were in the queue", len(lost), len(before.tree().Spans))
		})
	}
}

func size(t *testing.T, file string) int64 {
	t.Helper()
	info, err := os.Stat(file)
	require.NoError(t, err)
	return info.Size()
}

// overwrite puts noise in a part of a file.
func overwrite(t *testing.T, file string, from, length int64) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer f.Close()
	noise := make([]byte, length)
	for i := range noise {
		noise[i] = byte(rand.Uint64())
	}
	_, err = f.WriteAt(noise, from)
	require.NoError(t, err)
}
