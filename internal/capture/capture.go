// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package capture reads recorded engine telemetry: a NAME.jsonl with one
// OTLP/JSON export request per line, beside a NAME.index.jsonl that says when
// and from whom each line came.
package capture // import "github.com/otelcol-sglang/otelcol-sglang/internal/capture"

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"
)

const (
	dataSuffix  = ".jsonl"
	indexSuffix = ".index.jsonl"
	// maxLine bounds one export request; engines send at most 64 spans in one.
	maxLine = 64 << 20
)

// Export is one recorded export request.
type Export struct {
	// At is the time at which the request arrived.
	At time.Time
	// Peer is the sender's address, "ip:port". One peer is one engine process.
	Peer   string
	Traces ptrace.Traces
}

// indexLine is one line of an index file, as the recorder wrote it.
type indexLine struct {
	RecvUnixNano int64  `json:"recv_unix_nano"`
	Peer         string `json:"peer"`
}

// Names lists the trace captures of a folder, in alphabetical order.
func Names(dir string) ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*"+indexSuffix))
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(paths))
	for _, p := range paths {
		names = append(names, strings.TrimSuffix(filepath.Base(p), indexSuffix))
	}
	return names, nil
}

// Load reads a capture in arrival order.
func Load(dir, name string) ([]Export, error) {
	index, err := readIndex(filepath.Join(dir, name+indexSuffix))
	if err != nil {
		return nil, err
	}
	exports := make([]Export, 0, len(index))
	unmarshaler := &ptrace.JSONUnmarshaler{}
	err = eachLine(filepath.Join(dir, name+dataSuffix), func(n int, line []byte) error {
		if n >= len(index) {
			return fmt.Errorf("line %d has no line in the index", n+1)
		}
		traces, err := unmarshaler.UnmarshalTraces(line)
		if err != nil {
			return fmt.Errorf("line %d: %w", n+1, err)
		}
		exports = append(exports, Export{
			At:     time.Unix(0, index[n].RecvUnixNano),
			Peer:   strings.TrimPrefix(index[n].Peer, "ipv4:"),
			Traces: traces,
		})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("capture %s: %w", name, err)
	}
	if len(exports) != len(index) {
		return nil, fmt.Errorf("capture %s: %d export requests, %d lines in the index", name, len(exports), len(index))
	}
	return exports, nil
}

func readIndex(path string) ([]indexLine, error) {
	var index []indexLine
	err := eachLine(path, func(n int, line []byte) error {
		var l indexLine
		if err := json.Unmarshal(line, &l); err != nil {
			return fmt.Errorf("%s: line %d: %w", path, n+1, err)
		}
		index = append(index, l)
		return nil
	})
	return index, err
}

// ReadTraces calls take for every line of OTLP/JSON traces in r, such as a file
// exporter's output.
func ReadTraces(r io.Reader, take func(ptrace.Traces) error) error {
	unmarshaler := &ptrace.JSONUnmarshaler{}
	return scanLines(r, func(n int, line []byte) error {
		traces, err := unmarshaler.UnmarshalTraces(line)
		if err != nil {
			return fmt.Errorf("line %d: %w", n+1, err)
		}
		return take(traces)
	})
}

func eachLine(path string, take func(n int, line []byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return scanLines(f, take)
}

func scanLines(r io.Reader, take func(n int, line []byte) error) error {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, maxLine)
	for n := 0; scanner.Scan(); n++ {
		if len(scanner.Bytes()) == 0 {
			continue
		}
		if err := take(n, scanner.Bytes()); err != nil {
			return err
		}
	}
	return scanner.Err()
}
