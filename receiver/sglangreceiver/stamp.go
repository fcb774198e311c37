// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sglangreceiver // import "github.com/otelcol-sglang/otelcol-sglang/receiver/sglangreceiver"

import (
	"context"
	"net"
	"net/netip"
	"sync"

	"github.com/google/uuid"
	"go.opentelemetry.io/collector/client"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// maxStamps bounds the connections whose stamp is remembered.
const maxStamps = 4096

// stamper writes on each resource of spans who sent it: the collector's own
// instance and the connection's ip:port. One engine process has one connection.
type stamper struct {
	next   consumer.Traces
	prefix string

	mu     sync.RWMutex
	stamps map[netip.AddrPort]string // guarded by mu
}

func newStamper(instance string, next consumer.Traces) (consumer.Traces, error) {
	s := &stamper{next: next, prefix: instance + "/", stamps: map[netip.AddrPort]string{}}
	return consumer.NewTraces(s.consume, consumer.WithCapabilities(consumer.Capabilities{MutatesData: true}))
}

// instanceOf is the collector's service.instance.id, or a random one if the
// operator took it out of the collector's resource.
func instanceOf(set component.TelemetrySettings) string {
	if id, ok := set.Resource.Attributes().Get(attrServiceInstance); ok && id.AsString() != "" {
		return id.AsString()
	}
	return fallbackInstance()
}

var fallbackInstance = sync.OnceValue(uuid.NewString)

func (s *stamper) consume(ctx context.Context, td ptrace.Traces) error {
	if peer, ok := peerOf(ctx); ok {
		stamp(td, s.stampOf(peer))
	}
	return s.next.ConsumeTraces(ctx, td)
}

func stamp(td ptrace.Traces, stamp string) {
	for _, rs := range td.ResourceSpans().All() {
		attrs := rs.Resource().Attributes()
		if _, ok := attrs.Get(sglang.AttrExporterPeer); !ok {
			attrs.PutStr(sglang.AttrExporterPeer, stamp)
		}
	}
}

// peerOf is false without an IP and a port (a unix socket): no stamp is better
// than one that many processes share.
func peerOf(ctx context.Context) (netip.AddrPort, bool) {
	if remote, ok := ctx.Value(remoteAddrKey{}).(string); ok {
		addr, err := netip.ParseAddrPort(remote)
		return unmap(addr), err == nil
	}
	tcp, ok := client.FromContext(ctx).Addr.(*net.TCPAddr)
	if !ok || tcp == nil {
		return netip.AddrPort{}, false
	}
	addr := tcp.AddrPort()
	return unmap(addr), addr.IsValid()
}

func unmap(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }

func (s *stamper) stampOf(peer netip.AddrPort) string {
	s.mu.RLock()
	stamp, ok := s.stamps[peer]
	s.mu.RUnlock()
	if ok {
		return stamp
	}
	stamp = s.prefix + peer.String()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.stamps) >= maxStamps {
		clear(s.stamps)
	}
	s.stamps[peer] = stamp
	return stamp
}
