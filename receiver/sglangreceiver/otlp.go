// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sglangreceiver // import "github.com/otelcol-sglang/otelcol-sglang/receiver/sglangreceiver"

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/config/configmiddleware"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/extension/extensionmiddleware"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
)

const (
	// maxMessageMiB bounds one export request, after decompression, over both
	// protocols. An engine's are far smaller; another collector's batches reach
	// gRPC's own default of 4 MiB, and what is refused for its size is lost.
	maxMessageMiB = 20
	// headerTimeout ends connections that send no request. There is no idle
	// timeout: a sender that has to connect again is a new peer.
	headerTimeout = time.Minute
)

var (
	otlpFactory = otlpreceiver.NewFactory()
	// peerID is the private middleware in the inner receiver's HTTP settings.
	peerID = component.MustNewIDWithName("sglang", "peer")
)

// compressions are the core's without zstd: its decoder takes windows of
// 512 MiB, and so a request of some bytes makes it allocate as much. Over gRPC,
// see boundedZstd.
var compressions = []string{"", "gzip", "zlib", "snappy", "deflate", "lz4", "x-snappy-framed"}

// defaultProtocols are the core's, bounded, each there only if it is named.
func defaultProtocols() otlpreceiver.Protocols {
	p := otlpFactory.CreateDefaultConfig().(*otlpreceiver.Config).Protocols
	grpc := *p.GRPC.GetOrInsertDefault()
	grpc.MaxRecvMsgSizeMiB = maxMessageMiB
	http := *p.HTTP.GetOrInsertDefault()
	http.ServerConfig.MaxRequestBodySize = maxMessageMiB << 20
	http.ServerConfig.ReadHeaderTimeout = headerTimeout
	http.ServerConfig.CompressionAlgorithms = slices.Clone(compressions)
	p.GRPC = configoptional.Default(grpc)
	p.HTTP = configoptional.Default(http)
	return p
}

// otlpConfig is the inner receiver's: the private middleware stands before the
// user's, which may change the request.
func otlpConfig(p otlpreceiver.Protocols) component.Config {
	if p.HTTP.HasValue() {
		server := &p.HTTP.Get().ServerConfig
		server.Middlewares = append([]configmiddleware.Config{{ID: peerID}}, server.Middlewares...)
	}
	cfg := otlpFactory.CreateDefaultConfig().(*otlpreceiver.Config)
	cfg.Protocols = p
	return cfg
}

// otlpSettings names the inner receiver otlp/ and the outer one's id: a factory
// takes only ids of its own type, and its own metrics carry the id.
func otlpSettings(set receiver.Settings) receiver.Settings {
	set.ID = component.NewIDWithName(otlpFactory.Type(), set.ID.String())
	return set
}

// peerHost is the Collector's host with one more extension, which only the inner
// OTLP receiver sees.
type peerHost struct {
	component.Host
	extensions map[component.ID]component.Component
}

var _ componentstatus.Reporter = (*peerHost)(nil)

func newPeerHost(host component.Host) *peerHost {
	extensions := maps.Clone(host.GetExtensions())
	if extensions == nil {
		extensions = map[component.ID]component.Component{}
	}
	extensions[peerID] = peerMiddleware{}
	return &peerHost{Host: host, extensions: extensions}
}

// GetExtensions adds the private middleware.
func (h *peerHost) GetExtensions() map[component.ID]component.Component { return h.extensions }

// Report passes a status on to the Collector's host.
func (h *peerHost) Report(event *componentstatus.Event) { componentstatus.ReportStatus(h.Host, event) }

// peerMiddleware keeps a connection's address whole: over HTTP the Collector
// leaves only the IP in client.Info, by which all processes of a pod look alike.
type peerMiddleware struct {
	component.StartFunc
	component.ShutdownFunc
}

var _ extensionmiddleware.HTTPServer = peerMiddleware{}

// GetHTTPHandler wraps the handler.
func (peerMiddleware) GetHTTPHandler(context.Context) (extensionmiddleware.WrapHTTPHandlerFunc, error) {
	return func(_ context.Context, next http.Handler) (http.Handler, error) {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx := context.WithValue(r.Context(), remoteAddrKey{}, r.RemoteAddr)
			next.ServeHTTP(w, r.WithContext(ctx))
		}), nil
	}, nil
}

// remoteAddrKey leads to the sender's "ip:port". client.Info stays as it is, for
// components behind that read it.
type remoteAddrKey struct{}
