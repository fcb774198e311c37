// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package main // import "github.com/otelcol-sglang/otelcol-sglang/bench"

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/bench/internal/load"
	"github.com/otelcol-sglang/otelcol-sglang/bench/internal/process"
	"github.com/otelcol-sglang/otelcol-sglang/bench/internal/report"
	"github.com/otelcol-sglang/otelcol-sglang/bench/internal/send"
	"github.com/otelcol-sglang/otelcol-sglang/bench/internal/sink"
)

// overtime is how much longer than its load a run may take.
const overtime = 3 * time.Minute

type bench struct {
	out         io.Writer
	options     options
	warm, load  load.Load
	contestants []contestant
}

func newBench(out io.Writer, o options) (*bench, error) {
	warm := o.shape
	warm.Requests, warm.MinTokens, warm.MaxTokens, warm.Seed = 2*o.shape.Slots, 20, 60, 2
	b := &bench{out: out, options: o}
	for _, c := range contestants(o.binary, o.peer) {
		if strings.Contains(o.only, c.key) {
			b.contestants = append(b.contestants, c)
		}
	}
	var err error
	if b.warm, err = load.Make(warm, time.Now()); err != nil {
		return nil, err
	}
	b.load, err = load.Make(o.shape, time.Now())
	return b, err
}

// turn runs one pipeline on the load.
func (b *bench) turn(ctx context.Context, round int, c *contestant) error {
	ctx, cancel := context.WithTimeout(ctx, b.load.Duration()+overtime)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	to, err := sink.Start(self, sinkMode)
	if err != nil {
		return err
	}
	defer func() { _ = to.Stop() }()
	col, err := process.Start(ctx, c.binary, c.config, to.Address)
	if err != nil {
		return err
	}
	defer func() { _ = col.Kill() }()
	m, o, err := b.measure(ctx, c, col, to)
	if err != nil {
		return errors.Join(err, col.Kill(), errors.New(tail(col.Log())))
	}
	fmt.Fprintf(b.out, "round %d %s: CPU %.2f s, %d spans out of %d, %.1f MB, peak %.0f MiB, behind %.1f s, load average %s\n", round+1, c.key,
		m.CPU.Seconds(), m.SpansOut, m.SpansIn, float64(m.BytesOut)/1e6, float64(m.Peak)/(1<<20), m.Behind.Seconds(), report.LoadAverage())
	if err := c.check(o); err != nil {
		return err
	}
	c.runs = append(c.runs, m)
	return nil
}

func (b *bench) measure(ctx context.Context, c *contestant, col *process.Collector, to *sink.Process) (report.Run, outcome, error) {
	m, o := report.Run{SpansIn: b.load.Spans}, outcome{in: b.load, warm: b.warm}
	conns, err := send.Dial(col.GRPC, b.options.shape.TP+1)
	if err != nil {
		return m, o, err
	}
	defer conns.Close()
	if _, err := conns.Send(ctx, b.warm); err != nil {
		return m, o, err
	}
	before, err := to.Quiet(ctx, c.quiet)
	if err != nil {
		return m, o, err
	}
	cpu, err := col.CPU()
	if err != nil {
		return m, o, err
	}
	profiled := b.profile(ctx, c, col)
	m.Behind, err = conns.Send(ctx, b.load)
	if err = errors.Join(err, <-profiled); err != nil {
		return m, o, err
	}
	if _, err := to.Quiet(ctx, c.quiet); err != nil {
		return m, o, err
	}
	if o.counted, err = page(ctx, col.Metrics, c.metric); err != nil {
		return m, o, err
	}
	if m.Peak, err = col.Peak(); err != nil {
		return m, o, err
	}
	all, err := col.Stop(ctx)
	if err != nil {
		return m, o, err
	}
	after, err := to.Counts()
	o.out = after.Sub(before)
	m.CPU, m.SpansOut, m.BytesOut = all-cpu, o.out.Spans, o.out.Bytes
	return m, o, err
}

// profile takes a CPU profile of the whole load, if asked.
func (b *bench) profile(ctx context.Context, c *contestant, col *process.Collector) <-chan error {
	done := make(chan error, 1)
	if b.options.profile == "" {
		done <- nil
		return done
	}
	go func() {
		url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%.0f", col.PProf, b.load.Duration().Seconds())
		body, err := get(ctx, url)
		if err == nil {
			err = os.WriteFile(filepath.Join(b.options.profile, c.key+".pprof"), body, 0o600)
		}
		done <- err
	}()
	return done
}

// text is the generated part of docs/performance.md.
func (b *bench) text() string {
	var ps []report.Pipeline
	by := map[string]report.Pipeline{}
	for _, c := range b.contestants {
		p := report.Pipeline{Name: c.name, Runs: c.runs}
		ps, by[c.key] = append(ps, p), p
	}
	text := report.Machine() + "\n" + b.describe() + "\n" + report.Table(ps)
	var rs []report.Ratio
	for _, r := range []struct {
		to     string
		atMost float64
	}{{"b", 1}, {"c", 0.25}} {
		if by["a"].Runs != nil && by[r.to].Runs != nil {
			rs = append(rs, report.Ratio{Name: "a / " + r.to, Of: by["a"], To: by[r.to], AtMost: r.atMost})
		}
	}
	if rs != nil {
		text += "\n" + report.Ratios(rs)
	}
	return text
}

func (b *bench) describe() string {
	s := b.options.shape
	return fmt.Sprintf("Load: TP %d, trace level 3, %d requests of %d to %d decode steps, %d at a time, one step in %s: "+
		"%d spans (%.0f MB of OTLP) in %.0f s, in batches of %d spans. Medians of %d rounds.\n",
		s.TP, s.Requests, s.MinTokens, s.MaxTokens, s.Slots, s.Step, b.load.Spans, float64(b.load.Bytes)/1e6,
		b.load.Duration().Seconds(), s.BatchSpans, b.options.rounds)
}

// page reads a metric's sum over its series from a Prometheus page; empty name: none.
func page(ctx context.Context, address, metric string) (float64, error) {
	if metric == "" {
		return 0, nil
	}
	body, err := get(ctx, "http://"+address+"/metrics")
	return report.Sum(string(body), metric), err
}

func get(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: HTTP status %d", url, resp.StatusCode)
	}
	return io.ReadAll(resp.Body)
}

func tail(log string) string { return log[max(len(log)-4096, 0):] }
