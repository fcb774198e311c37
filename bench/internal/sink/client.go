// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sink // import "github.com/otelcol-sglang/otelcol-sglang/bench/internal/sink"

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Process is a sink in another process.
type Process struct {
	// Address is host:port.
	Address string
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

// Start runs a command that calls Serve.
func Start(program string, args ...string) (*Process, error) {
	p := &Process{cmd: exec.Command(program, args...)}
	p.cmd.Stderr = os.Stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	line, err := p.out.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("sink: %w", err)
	}
	p.Address = strings.TrimSpace(line)
	return p, nil
}

// Counts asks the process.
func (p *Process) Counts() (Counts, error) {
	var c Counts
	if _, err := fmt.Fprintln(p.in); err != nil {
		return c, err
	}
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal(line, &c)
}

// Quiet waits until nothing came for a while.
func (p *Process) Quiet(ctx context.Context, quiet time.Duration) (Counts, error) {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	last, since := Counts{}, time.Now()
	for time.Since(since) < quiet {
		c, err := p.Counts()
		if err != nil {
			return last, err
		}
		if c != last {
			last, since = c, time.Now()
		}
		select {
		case <-ctx.Done():
			return last, ctx.Err()
		case <-ticker.C:
		}
	}
	return last, nil
}

// Stop ends the process.
func (p *Process) Stop() error {
	_ = p.in.Close()
	return p.cmd.Wait()
}
