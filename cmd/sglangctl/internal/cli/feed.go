// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package cli // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/cli"

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/replay"
	"github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/up"
)

// realEngine is the URL of an engine that somebody else started.
type realEngine string

func (e realEngine) engineURL() string           { return string(e) }
func (realEngine) configs() []string             { return nil }
func (realEngine) prepare(context.Context) error { return nil }
func (realEngine) died() <-chan error            { return nil }
func (realEngine) stop() error                   { return nil }

func (e realEngine) begin(_ context.Context, out io.Writer, done func()) error {
	fmt.Fprintf(out, "scraping %s; waiting for its spans on %s (gRPC) and %s (HTTP)\n", string(e), addrGRPC, addrHTTP)
	done()
	return nil
}

// replays are recorded engines.
type replays struct {
	d        *demo
	stopPage func()
	running  sync.WaitGroup
	cancel   context.CancelFunc
}

func newReplays(d *demo) (feeder, error) {
	d.loop, d.Seed = true, rand.Uint64()
	d.Protocol, d.Endpoint = replay.ProtocolGRPC, addrGRPC
	return &replays{d: d, stopPage: func() {}, cancel: func() {}}, d.resolve()
}

func (r *replays) engineURL() string { return "http://" + r.d.metricsListen }
func (*replays) configs() []string   { return nil }
func (*replays) died() <-chan error  { return nil }

// prepare serves the page, which is there before the first scrape.
func (r *replays) prepare(ctx context.Context) error {
	stop, err := r.d.servePage(ctx)
	if err == nil {
		r.stopPage = stop
	}
	return err
}

func (r *replays) begin(ctx context.Context, out io.Writer, done func()) error {
	r.d.OnFirst = func(s replay.Stats) {
		fmt.Fprintln(out, sent(s))
		done()
	}
	player, err := replay.New(r.d.Options)
	if err != nil {
		return err
	}
	ctx, r.cancel = context.WithCancel(ctx)
	where := "without a metrics page"
	if r.d.metricsPage != "" {
		where = "their metrics page is http://" + r.d.metricsListen + "/metrics"
	}
	fmt.Fprintf(out, "replaying %d captures of real engines, %s\n", len(r.d.Captures), where)
	r.running.Go(func() {
		if err := errors.Join(player.Run(ctx), player.Close()); err != nil && ctx.Err() == nil {
			fmt.Fprintln(out, "replay:", err)
		}
	})
	return nil
}

func (r *replays) stop() error {
	r.cancel()
	r.running.Wait()
	r.stopPage()
	return nil
}

// Addresses of the second engine of a pair, and of the port at which they meet.
const (
	addrDecode    = "localhost:30001"
	addrBootstrap = "localhost:8998"
	pairConfig    = "config/quickstart-pd.yaml"
)

// simulated is one simulated engine or more, and clients if those are apart.
type simulated struct {
	// engines start before the collector, so that its first scrape finds a page;
	// clients after it, so that it gets all spans.
	engines, clients []up.Child
	say              string
	extra            []string

	running []*up.Process
	dead    chan error
}

// defaultSim is what there is to see without any settings: two attention-DP groups
// of two ranks, one of them slow.
var defaultSim = []string{
	"--tp-size=4", "--dp-size=2", "--enable-dp-attention", "--fault=slow-rank:rank=3,after=5s",
}

// defaultLoad stands before the user's flags, of which the last holds.
const defaultLoad = "--load=chat:start=3s"

func newSimulated(d *demo) *simulated {
	flags := d.simArgs
	if len(flags) == 0 {
		flags = defaultSim
	}
	flags = append([]string{defaultLoad}, flags...)
	return &simulated{
		dead:    make(chan error, 1),
		engines: []up.Child{d.engineChild("the engine", "engine", addrEngine, flags...)},
		say:     "a simulated engine runs under load",
	}
}

func newPair(d *demo) *simulated {
	clients := up.Child{
		Name: "the clients", Binary: d.sim, Log: d.log("clients"), Grace: grace,
		Args: []string{"load", "--target=http://" + addrDecode, "--prefill=http://" + addrEngine, "--load=rag:rate=2"},
	}
	prefill := d.engineChild("the prefill engine", "prefill", addrEngine, "--tp-size=2", "--disaggregation-mode=prefill")
	prefill.Ports = append(prefill.Ports, addrBootstrap)
	decode := d.engineChild("the decode engine", "decode", addrDecode, "--tp-size=2", "--disaggregation-mode=decode",
		"--bootstrap-addr="+addrBootstrap)
	prefill.Env, decode.Env = named("prefill-0"), named("decode-0")
	return &simulated{
		dead:    make(chan error, 3),
		extra:   []string{pairConfig},
		say:     "a prefill and a decode engine run under load",
		engines: []up.Child{prefill, decode},
		clients: []up.Child{clients},
	}
}

// named is the environment of an engine whose spans say what pairConfig says of its
// page. Without that nothing tells which page belongs to which spans.
func named(instance string) []string {
	return []string{"OTEL_RESOURCE_ATTRIBUTES=service.instance.id=" + instance}
}

func (d *demo) engineChild(name, log, addr string, flags ...string) up.Child {
	_, port, _ := net.SplitHostPort(addr) // a constant of ours
	return up.Child{
		Name: name, Binary: d.sim, Log: d.log(log), Grace: grace, Ports: []string{addr},
		// Health by /ready: /health would send a request of its own.
		Health: "http://" + addr + "/ready",
		Args: append([]string{
			"--port=" + port, "--enable-metrics", "--enable-trace", "--otlp-traces-endpoint=" + addrGRPC,
		}, flags...),
	}
}

func (*simulated) engineURL() string    { return "http://" + addrEngine }
func (s *simulated) configs() []string  { return s.extra }
func (s *simulated) died() <-chan error { return s.dead }

func (s *simulated) prepare(ctx context.Context) error { return s.start(ctx, s.engines) }

func (s *simulated) begin(ctx context.Context, out io.Writer, done func()) error {
	if err := s.start(ctx, s.clients); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s, its API and metrics page are at http://%s\n", s.say, addrEngine)
	// Some requests end within this.
	const first = 10 * time.Second
	time.AfterFunc(first, done)
	return nil
}

func (s *simulated) start(ctx context.Context, children []up.Child) error {
	for _, c := range children {
		p, err := up.Start(ctx, c)
		if err != nil {
			return err
		}
		s.running = append(s.running, p)
		go func() {
			<-p.Done()
			s.dead <- p.Death()
		}()
	}
	return nil
}

// stop ends the clients before the engines.
func (s *simulated) stop() error {
	var errs []error
	for i := len(s.running) - 1; i >= 0; i-- {
		errs = append(errs, s.running[i].Stop())
	}
	return errors.Join(errs...)
}
