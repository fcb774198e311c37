// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package main // import "github.com/otelcol-sglang/otelcol-sglang/bench/sizing"

import (
	"io"
	"net"
	"sync/atomic"
)

// relay hands connections on to an address and counts what goes there, in bytes.
type relay struct {
	net.Listener
	to    string
	bytes atomic.Int64
}

func startRelay(to string) (*relay, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &relay{Listener: l, to: to}
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go r.serve(in)
		}
	}()
	return r, nil
}

func (r *relay) serve(in net.Conn) {
	defer in.Close()
	out, err := net.Dial("tcp", r.to)
	if err != nil {
		return
	}
	defer out.Close()
	go func() {
		_, _ = io.Copy(in, out)
		_ = in.Close()
	}()
	_, _ = io.Copy(out, io.TeeReader(in, r))
}

// Write counts.
func (r *relay) Write(p []byte) (int, error) {
	r.bytes.Add(int64(len(p)))
	return len(p), nil
}
