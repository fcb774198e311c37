// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is an OTLP receiver that remembers who sent what.
type server struct {
	ptraceotlp.UnimplementedGRPCServer
	mu       sync.Mutex
	received map[string][]ptrace.Traces
	// fail is the number of exports to refuse, with a retryable error, before the first is taken.
	fail int
	// reject is the number of spans of each export to reject for good.
	reject int64
}

func (s *server) take(from string, req ptraceotlp.ExportRequest) (resp ptraceotlp.ExportResponse, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resp = ptraceotlp.NewExportResponse()
	if s.fail > 0 {
		s.fail--
		return resp, false
	}
	resp.PartialSuccess().SetRejectedSpans(s.reject)
	s.received[from] = append(s.received[from], req.Traces())
	return resp, true
}

func (s *server) Export(ctx context.Context, req ptraceotlp.ExportRequest) (ptraceotlp.ExportResponse, error) {
	from, _ := peer.FromContext(ctx)
	resp, ok := s.take(from.Addr.String(), req)
	if !ok {
		return resp, status.Error(codes.Unavailable, "later")
	}
	return resp, nil
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	req := ptraceotlp.NewExportRequest()
	if err := req.UnmarshalProto(body); err != nil || r.URL.Path != tracesPath {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	resp, ok := s.take(r.RemoteAddr, req)
	if !ok {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	answer, _ := resp.MarshalProto()
	_, _ = w.Write(answer)
}

// start returns the address of a server for the protocol.
func (s *server) start(t *testing.T, protocol string) string {
	s.received = map[string][]ptrace.Traces{}
	if protocol == ProtocolHTTP {
		h := httptest.NewServer(s)
		t.Cleanup(h.Close)
		return h.URL
	}
	listener, err := net.Listen("tcp", "localhost:0")
	require.NoError(t, err)
	g := grpc.NewServer()
	ptraceotlp.RegisterGRPCServer(g, s)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = g.Serve(listener)
	}()
	t.Cleanup(func() {
		g.Stop()
		<-done
	})
	return listener.Addr().String()
}

// spans returns all that was received, and the span ids that came twice.
func (s *server) spans() (total, twice int) {
	seen := map[string]bool{}
	for _, exports := range s.received {
		eachSpan(exports, func(span ptrace.Span) {
			total++
			if seen[span.SpanID().String()] {
				twice++
			}
			seen[span.SpanID().String()] = true
		})
	}
	return total, twice
}

// quick is tp2 with a DP controller: 144 spans of 4 requests from 6 processes in 9 exports.
func quick(protocol, endpoint string) Options {
	return Options{
		Dir: testCaptures, Captures: []string{"traces-dp2-tp2"}, Protocol: protocol, Endpoint: endpoint,
		Engines: 1, Repeat: 1, Speed: 1000, MaxGap: time.Second, Seed: 1,
	}
}

func play(t *testing.T, o Options) Stats {
	p, err := New(o)
	require.NoError(t, err)
	p.retry.first = time.Millisecond
	require.NoError(t, p.Run(t.Context()))
	require.NoError(t, p.Close())
	return p.Stats()
}

func TestReplay(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Options)
		want   Stats
	}{
		{"once", func(*Options) {}, Stats{Spans: 144, Requests: 4, Exports: 9, Processes: 6}},
		{
			"two engines, three repetitions",
			func(o *Options) { o.Engines, o.Repeat = 2, 3 },
			Stats{Spans: 6 * 144, Requests: 24, Exports: 54, Processes: 12},
		},
		{
			"overlapping repetitions",
			func(o *Options) { o.Repeat, o.Rate, o.Speed = 4, 500, 20 },
			Stats{Spans: 4 * 144, Requests: 16, Exports: 36, Processes: 6},
		},
		{
			"two captures",
			func(o *Options) { o.Captures = append(o.Captures, "traces-retraction-tp2") },
			Stats{Spans: 144 + 96, Requests: 6, Exports: 14, Processes: 9},
		},
	} {
		for _, protocol := range []string{ProtocolGRPC, ProtocolHTTP} {
			t.Run(tc.name+"/"+protocol, func(t *testing.T) {
				s := &server{}
				o := quick(protocol, s.start(t, protocol))
				tc.change(&o)
				assert.Equal(t, tc.want, play(t, o))
				total, twice := s.spans()
				assert.EqualValues(t, tc.want.Spans, total)
				assert.Zero(t, twice, "every repetition has span ids of its own")
				assert.Len(t, s.received, tc.want.Processes, "one connection for each process")
				for from, exports := range s.received {
					assert.Len(t, instances(exports), 1, "%s is one process", from)
				}
			})
		}
	}
}

// instances are the service.instance.id values of exports.
func instances(exports []ptrace.Traces) map[string]bool {
	ids := map[string]bool{}
	for _, traces := range exports {
		for _, rs := range traces.ResourceSpans().All() {
			id, _ := rs.Resource().Attributes().Get(attrInstanceID)
			ids[id.AsString()] = true
		}
	}
	return ids
}

func TestReplayTimesAreCurrent(t *testing.T) {
	s := &server{}
	before := time.Now()
	play(t, quick(ProtocolGRPC, s.start(t, ProtocolGRPC)))
	after := time.Now()
	for _, exports := range s.received {
		eachSpan(exports, func(span ptrace.Span) {
			assert.Less(t, span.EndTimestamp().AsTime(), after)
			assert.Greater(t, span.StartTimestamp().AsTime(), before.Add(-10*time.Second))
		})
	}
}

func TestReplaySendsAgain(t *testing.T) {
	for _, protocol := range []string{ProtocolGRPC, ProtocolHTTP} {
		t.Run(protocol, func(t *testing.T) {
			s := &server{fail: 4}
			assert.Equal(t, Stats{Spans: 144, Requests: 4, Exports: 9, Processes: 6}, play(t, quick(protocol, s.start(t, protocol))))
		})
	}
}

func TestReplayCountsWhatWasRefused(t *testing.T) {
	for _, protocol := range []string{ProtocolGRPC, ProtocolHTTP} {
		t.Run(protocol, func(t *testing.T) {
			s := &server{reject: 2}
			assert.EqualValues(t, 18, play(t, quick(protocol, s.start(t, protocol))).Refused)
		})
	}
}

func TestReplayCountsWhatIsLost(t *testing.T) {
	s := &server{fail: 1 << 20}
	p, err := New(quick(ProtocolGRPC, s.start(t, ProtocolGRPC)))
	require.NoError(t, err)
	p.retry = retry{tries: 2, first: time.Microsecond, timeout: time.Minute}
	require.ErrorContains(t, p.Run(t.Context()), "later")
	assert.Equal(t, Stats{Lost: 144, Processes: 6}, p.Stats())
	require.NoError(t, p.Close())
}

func TestReplayStops(t *testing.T) {
	s := &server{}
	o := quick(ProtocolGRPC, s.start(t, ProtocolGRPC))
	o.Repeat = 0
	ctx, cancel := context.WithCancel(t.Context())
	o.OnFirst = func(got Stats) {
		assert.GreaterOrEqual(t, got.Requests, int64(4))
		cancel()
	}
	p, err := New(o)
	require.NoError(t, err)
	require.NoError(t, p.Run(ctx))
	require.NoError(t, p.Close())
}

func TestValidate(t *testing.T) {
	o := Options{Engines: 0, Repeat: -1, Speed: 0, MaxGap: -1, Rate: -1}
	err := o.Validate()
	for _, text := range []string{
		"captures must name at least one", "engines must be between 1 and 1000 (got 0)", "repeat must not be negative (got -1)",
		"speed must be greater than 0 (got 0)", "rate must be between 0 and 1000 (got -1)", "max gap must not be negative",
	} {
		require.ErrorContains(t, err, text)
	}
	require.NoError(t, quick("", "").Validate())
	_, err = New(quick("carrier pigeon", ""))
	require.ErrorContains(t, err, `protocol must be grpc or http (got "carrier pigeon")`)
}
