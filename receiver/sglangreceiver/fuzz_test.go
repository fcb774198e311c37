// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sglangreceiver

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/xconfmap"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// FuzzConfig: settings are taken or refused, without a panic, and what is refused names
// no password.
func FuzzConfig(f *testing.F) {
	for _, text := range []string{
		"engines: [{endpoint: 'http://localhost:1', resource_attributes: {a: b}}]\ncollection_interval: 1s",
		"protocols: {grpc: {endpoint: localhost:1}, http: {}}\nmax_page_mib: 5",
		"engines: [{endpoint: 'http://u:s3cr3t@h'}]", "protocols:", "engines: {}", "initial_delay: -1h",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		raw, err := confmap.NewRetrievedFromYAML([]byte(text))
		if err != nil {
			return
		}
		conf, err := raw.AsConf()
		if err != nil {
			return
		}
		cfg := NewFactory().CreateDefaultConfig().(*Config)
		if conf.Unmarshal(cfg) != nil {
			return
		}
		if err := xconfmap.Validate(cfg); err != nil {
			require.NotContains(t, err.Error(), "u:s3cr3t@")
		}
	})
}

// FuzzStamp: whatever a connection and a resource say of the sender, a stamp that is
// there stays, and one that is written has an address.
func FuzzStamp(f *testing.F) {
	f.Add("127.0.0.1:4711", "")
	f.Add("[::1]:1", "other/10.0.0.1:1")
	f.Add("@", "x")
	f.Fuzz(func(t *testing.T, remote, existing string) {
		sink := new(consumertest.TracesSink)
		s, err := newStamper("me", sink)
		require.NoError(t, err)
		td := ptrace.NewTraces()
		attrs := td.ResourceSpans().AppendEmpty().Resource().Attributes()
		if existing != "" {
			attrs.PutStr(sglang.AttrExporterPeer, existing)
		}
		td.ResourceSpans().At(0).ScopeSpans().AppendEmpty().Spans().AppendEmpty()
		require.NoError(t, s.ConsumeTraces(context.WithValue(context.Background(), remoteAddrKey{}, remote), td))
		got, ok := sink.AllTraces()[0].ResourceSpans().At(0).Resource().Attributes().Get(sglang.AttrExporterPeer)
		switch {
		case existing != "":
			require.Equal(t, existing, got.Str())
		case ok:
			address, mine := strings.CutPrefix(got.Str(), "me/")
			require.True(t, mine && strings.Contains(address, ":"), got.Str())
		}
	})
}
