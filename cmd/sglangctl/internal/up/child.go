// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package up // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/up"

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Child is how to start a program: the collector, a simulated engine, its clients.
type Child struct {
	// Name is what messages call it: "the collector".
	Name   string
	Binary string
	Args   []string
	// Env is added to the environment.
	Env []string
	// Log is the file that takes what it writes.
	Log string
	// Health is the URL that answers 200 once it works; "" if it has none.
	Health string
	// Ports are addresses that must be free.
	Ports []string
	// Grace is how long it may take to finish at the end.
	Grace time.Duration
}

// Process is a running child.
type Process struct {
	name string
	cmd  *exec.Cmd
	log  *os.File
	done chan struct{}
	// err is set before done is closed.
	err   error
	grace time.Duration
}

// CheckPorts names every address that something else listens on.
func CheckPorts(addresses []string) error {
	var errs []error
	for _, a := range addresses {
		l, err := net.Listen("tcp", a)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s is not free: %w", a, err))
			continue
		}
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// Start starts the child and returns once it is healthy.
func Start(ctx context.Context, c Child) (*Process, error) {
	if err := CheckPorts(c.Ports); err != nil {
		return nil, fmt.Errorf("does %s run already? %w", c.Name, err)
	}
	if err := os.MkdirAll(filepath.Dir(c.Log), 0o755); err != nil {
		return nil, err
	}
	log, err := os.Create(c.Log)
	if err != nil {
		return nil, err
	}
	p := &Process{name: c.Name, log: log, done: make(chan struct{}), grace: c.Grace}
	p.cmd = exec.Command(c.Binary, c.Args...)
	p.cmd.Env = append(os.Environ(), c.Env...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	detach(p.cmd)
	if err := p.start(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s does not start: %w", c.Name, err), log.Close())
	}
	if c.Health == "" {
		return p, nil
	}
	if err := p.healthy(ctx, c.Health); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

// start starts the child on a thread that lives as long as it does: Linux ties
// the signal that detach asks for to the thread, not to the process.
func (p *Process) start() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.done)
		}
	}()
	return <-started
}

// Done is closed when the child has ended, by itself or by Stop.
func (p *Process) Done() <-chan struct{} { return p.done }

// healthy polls until the child answers, dies, or takes too long.
func (p *Process) healthy(ctx context.Context, url string) error {
	const limit, every = time.Minute, 100 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-p.done:
			return p.Death()
		case <-ctx.Done():
			return fmt.Errorf("%s did not become healthy at %s: %w", p.name, url, ctx.Err())
		case <-ticker.C:
			if answers(ctx, url) {
				return nil
			}
		}
	}
}

func answers(ctx context.Context, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport, Timeout: time.Second}).Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// Death says how the child ended, with the last lines that it wrote. It
// must be called after Done only.
func (p *Process) Death() error {
	how := "it ended by itself"
	if p.err != nil {
		how = p.err.Error()
	}
	return fmt.Errorf("%s stopped (%s); its last words, from %s:\n%s", p.name, how, p.log.Name(), tail(p.log.Name()))
}

// tail returns the last lines of a file.
func tail(path string) string {
	const lines = 15
	raw, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(raw), "\n"), "\n")
	return strings.Join(all[max(len(all)-lines, 0):], "\n")
}

// Stop asks the child to end, so that it flushes what it holds, and ends it by force
// after the grace. It may be called more than once.
func (p *Process) Stop() error {
	select {
	case <-p.done:
	default:
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
	}
	timer := time.NewTimer(p.grace)
	defer timer.Stop()
	var err error
	select {
	case <-p.done:
	case <-timer.C:
		err = fmt.Errorf("%s did not end within %s and was killed", p.name, p.grace)
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	_ = p.log.Close()
	return err
}
