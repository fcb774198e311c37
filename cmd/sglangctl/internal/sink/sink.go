// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package sink reads the traces that the collector's file exporter wrote.
package sink // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/sink"

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/pdata/ptrace"
)

// maxLine bounds one line, which is one batch of the exporter; a longer one is
// skipped and counted.
const maxLine = 64 << 20

// Sink is a file of OTLP/JSON lines, with the rotated files beside it.
type Sink struct{ Path string }

// Skipped counts lines that were not read.
type Skipped struct {
	// Broken lines are no OTLP/JSON, Long ones exceed what one batch may take.
	Broken, Long int
}

// Files lists the files, the oldest first. The file exporter rotates
// traces.jsonl to traces-<time>.jsonl.
func (s Sink) Files() ([]string, error) {
	if _, err := os.Stat(s.Path); err != nil {
		return nil, err
	}
	ext := filepath.Ext(s.Path)
	rotated, err := filepath.Glob(strings.TrimSuffix(s.Path, ext) + "-*" + ext)
	if err != nil {
		return nil, err
	}
	slices.Sort(rotated)
	return append(rotated, s.Path), nil
}

// Each calls take for every batch of spans, the oldest first. A last line that
// the exporter has not finished is left out silently, other broken lines are
// counted. It ends when ctx does: files may be large.
func (s Sink) Each(ctx context.Context, take func(ptrace.Traces)) (Skipped, error) {
	var skipped Skipped
	files, err := s.Files()
	if err != nil {
		return skipped, err
	}
	for _, path := range files {
		if err := eachOf(ctx, path, take, &skipped); err != nil {
			return skipped, fmt.Errorf("%s: %w", path, err)
		}
	}
	return skipped, nil
}

func eachOf(ctx context.Context, path string, take func(ptrace.Traces), skipped *Skipped) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return read(ctx, f, maxLine, take, skipped)
}

func read(ctx context.Context, r io.Reader, limit int, take func(ptrace.Traces), skipped *Skipped) error {
	lines := bufio.NewReaderSize(r, 1<<20)
	unmarshaler := &ptrace.JSONUnmarshaler{}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		line, long, err := readLine(lines, limit)
		if err != nil {
			if errors.Is(err, io.EOF) {
				return last(line, take)
			}
			return err
		}
		switch {
		case long:
			skipped.Long++
		case len(line) == 0:
		default:
			if traces, err := unmarshaler.UnmarshalTraces(line); err == nil {
				take(traces)
			} else {
				skipped.Broken++
			}
		}
	}
}

// last takes a line without an end if it is whole.
func last(line []byte, take func(ptrace.Traces)) error {
	unmarshaler := &ptrace.JSONUnmarshaler{}
	if len(line) == 0 {
		return nil
	}
	if traces, err := unmarshaler.UnmarshalTraces(line); err == nil {
		take(traces)
	}
	return nil
}

// readLine returns a line without its end; what comes with io.EOF had none.
func readLine(r *bufio.Reader, limit int) (line []byte, long bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if !long {
			line = append(line, part...)
		}
		if len(line) > limit {
			line, long = nil, true
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimRight(line, "\r\n"), long, err
		}
	}
}
