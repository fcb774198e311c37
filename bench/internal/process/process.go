// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package process runs a collector and measures it: Linux only.
package process // import "github.com/otelcol-sglang/otelcol-sglang/bench/internal/process"

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	startLimit = 30 * time.Second
	stopLimit  = 60 * time.Second
	// tick is the unit of /proc/PID/stat: USER_HZ, 100 on all Linux ports of Go.
	tick = 10 * time.Millisecond
)

// Collector is one that runs.
type Collector struct {
	// GRPC takes OTLP, Metrics is the Prometheus exporter's page, PProf the profiler,
	// Own the page of the collector's own telemetry.
	GRPC, Metrics, PProf, Own string
	cmd                       *exec.Cmd
	log                       bytes.Buffer
	// exited is closed after err, the process's end, was set.
	exited chan struct{}
	err    error
}

// Start runs a collector in front of a sink and returns once it takes OTLP.
func Start(ctx context.Context, binary, config, sink string) (*Collector, error) {
	ports, err := freePorts(4)
	if err != nil {
		return nil, err
	}
	c := &Collector{GRPC: local(ports[0]), Metrics: local(ports[1]), PProf: local(ports[2]), Own: local(ports[3]), exited: make(chan struct{})}
	c.cmd = exec.Command(binary, "--config", config)
	c.cmd.Env = append(os.Environ(),
		"BENCH_GRPC="+c.GRPC, "BENCH_METRICS="+c.Metrics, "BENCH_PPROF="+c.PProf,
		"BENCH_OWN_PORT="+strconv.Itoa(ports[3]), "BENCH_SINK="+sink)
	c.cmd.Stdout, c.cmd.Stderr = &c.log, &c.log
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		c.err = c.cmd.Wait()
		close(c.exited)
	}()
	return c, c.await(ctx)
}

func (c *Collector) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-c.exited:
			return fmt.Errorf("%s ended: %w\n%s", c.cmd.Path, c.err, c.log.String())
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s does not listen: %w", c.cmd.Path, ctx.Err()), c.Kill())
		case <-ticker.C:
		}
		if conn, err := net.DialTimeout("tcp", c.GRPC, time.Second); err == nil {
			return conn.Close()
		}
	}
}

// CPU is user and system time so far.
func (c *Collector) CPU() (time.Duration, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	return cpuOf(string(raw))
}

func cpuOf(stat string) (time.Duration, error) {
	const utime, stime = 11, 12 // counted from the state, after the name in brackets
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) <= stime {
		return 0, fmt.Errorf("cannot read %q", stat)
	}
	user, err := strconv.ParseInt(fields[utime], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[stime], 10, 64)
	return time.Duration(user+system) * tick, err
}

// Peak is the most resident memory so far, in bytes.
func (c *Collector) Peak() (int64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	return peakOf(string(raw))
}

func peakOf(status string) (int64, error) {
	for line := range strings.Lines(status) {
		rest, ok := strings.CutPrefix(line, "VmHWM:")
		if !ok {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
		return kib << 10, err
	}
	return 0, errors.New("no VmHWM")
}

// Stop ends the collector as an operator does and returns all its user and system time.
func (c *Collector) Stop(ctx context.Context) (time.Duration, error) {
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	select {
	case <-c.exited:
		s := c.cmd.ProcessState
		return s.UserTime() + s.SystemTime(), c.err
	case <-ctx.Done():
		return 0, errors.Join(ctx.Err(), c.Kill())
	}
}

// Kill ends the collector if it still runs.
func (c *Collector) Kill() error {
	err := c.cmd.Process.Kill()
	<-c.exited
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// Log is what the collector wrote, after its end.
func (c *Collector) Log() string { return c.log.String() }

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
