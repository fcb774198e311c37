// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package disagg // import "github.com/otelcol-sglang/otelcol-sglang/engine/disagg"

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"sync"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
)

const (
	// outbox bounds what waits for a slow or absent peer; more is dropped, as a
	// broken network would.
	outbox    = 8192
	retryMin  = 100 * time.Millisecond
	retryMax  = 2 * time.Second
	maxLine   = 4096
	writeTime = 5 * time.Second
)

// Listen waits on a prefill engine's bootstrap port for decode engines, as many as
// come. A message goes to the one that spoke of its room, or to all.
func Listen(ctx context.Context, loop *clock.Loop, addr string) (*Server, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	s := &Server{loop: loop, listener: l, rooms: map[uint64]*conn{}, conns: map[*conn]struct{}{}}
	s.done.Add(1)
	go s.accept()
	return s, nil
}

// Server is a prefill engine's end of TCP links.
type Server struct {
	loop     *clock.Loop
	listener net.Listener
	done     sync.WaitGroup

	// receive and rooms belong to the loop's goroutine.
	receive func(Message)
	rooms   map[uint64]*conn

	mu     sync.Mutex
	conns  map[*conn]struct{} // guarded by mu
	closed bool               // guarded by mu
}

var (
	_ Link = (*Server)(nil)
	_ Link = (*Client)(nil)
)

// Addr is where it listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// OnReceive implements [Link].
func (s *Server) OnReceive(f func(Message)) { s.receive = f }

// Send implements [Link].
func (s *Server) Send(m Message) {
	if c := s.rooms[m.Room]; c != nil {
		c.send(m)
		if m.Kind != Metadata {
			delete(s.rooms, m.Room)
		}
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.send(m)
	}
}

// Close implements [Link]: it waits for its goroutines.
func (s *Server) Close() error {
	err := s.listener.Close()
	s.mu.Lock()
	s.closed = true
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.done.Wait()
	return err
}

func (s *Server) accept() {
	defer s.done.Done()
	for {
		nc, err := s.listener.Accept()
		if err != nil {
			return
		}
		c := newConn(nc)
		if !s.add(c) {
			_ = nc.Close()
			return
		}
		s.done.Add(1)
		go func() {
			defer s.done.Done()
			c.serve(func(m Message) { s.loop.Post(func() { s.received(c, m) }) })
			s.forget(c)
		}()
	}
}

func (s *Server) add(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

// forget: the rooms of a decode engine that went away go with it.
func (s *Server) forget(c *conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	s.loop.Post(func() {
		for room, other := range s.rooms {
			if other != c {
				continue
			}
			delete(s.rooms, room)
			if s.receive != nil {
				s.receive(Message{Kind: Failed, Room: room, Reason: "connection lost"})
			}
		}
	})
}

func (s *Server) received(c *conn, m Message) {
	if m.Kind == Metadata {
		s.rooms[m.Room] = c
	}
	if s.receive != nil {
		s.receive(m)
	}
}

// Client is a decode engine's end of a TCP link.
type Client struct {
	loop    *clock.Loop
	receive func(Message) // the loop's goroutine
	out     chan Message
	cancel  context.CancelFunc
	done    sync.WaitGroup
}

// Dial connects a decode engine with its prefill engine, again and again until ctx
// is done or the link closed. What is sent meanwhile waits. Only an address that is
// none is an error.
func Dial(ctx context.Context, loop *clock.Loop, addr string) (*Client, error) {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	c := &Client{loop: loop, out: make(chan Message, outbox), cancel: cancel}
	c.done.Add(1)
	go c.run(ctx, addr)
	return c, nil
}

// OnReceive implements [Link].
func (c *Client) OnReceive(f func(Message)) { c.receive = f }

// Send implements [Link].
func (c *Client) Send(m Message) {
	select {
	case c.out <- m:
	default:
	}
}

// Close implements [Link]: it waits for its goroutines.
func (c *Client) Close() error {
	c.cancel()
	c.done.Wait()
	return nil
}

func (c *Client) run(ctx context.Context, addr string) {
	defer c.done.Done()
	var d net.Dialer
	for wait := retryMin; ; wait = min(2*wait, retryMax) {
		nc, err := d.DialContext(ctx, "tcp", addr)
		if err == nil {
			wait = retryMin
			c.talk(ctx, nc)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

func (c *Client) talk(ctx context.Context, nc net.Conn) {
	k := &conn{Conn: nc, out: c.out, gone: make(chan struct{})}
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
	defer stop()
	k.serve(func(m Message) {
		c.loop.Post(func() {
			if c.receive != nil {
				c.receive(m)
			}
		})
	})
}

// conn is one connection: a reader and a writer of JSON lines.
type conn struct {
	net.Conn
	out  chan Message
	gone chan struct{}
}

func newConn(nc net.Conn) *conn {
	return &conn{Conn: nc, out: make(chan Message, outbox), gone: make(chan struct{})}
}

func (c *conn) send(m Message) {
	select {
	case c.out <- m:
	default:
	}
}

// serve reads until the connection ends, and writes meanwhile.
func (c *conn) serve(receive func(Message)) {
	var w sync.WaitGroup
	w.Add(1)
	go func() {
		defer w.Done()
		c.write()
	}()
	in := bufio.NewScanner(c)
	in.Buffer(make([]byte, 0, maxLine), maxLine)
	for in.Scan() {
		var m Message
		if json.Unmarshal(in.Bytes(), &m) == nil {
			receive(m)
		}
	}
	close(c.gone)
	_ = c.Close()
	w.Wait()
}

func (c *conn) write() {
	enc := json.NewEncoder(c)
	for {
		select {
		case <-c.gone:
			return
		case m := <-c.out:
			_ = c.SetWriteDeadline(time.Now().Add(writeTime))
			if enc.Encode(m) != nil {
				_ = c.Close()
				return
			}
		}
	}
}
