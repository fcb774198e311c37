// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sglangreceiver // import "github.com/otelcol-sglang/otelcol-sglang/receiver/sglangreceiver"

import (
	"io"

	"github.com/klauspost/compress/zstd"
	_ "go.opentelemetry.io/collector/config/configgrpc" // registers its own zstd first
	"google.golang.org/grpc/encoding"
)

// maxZstdWindow bounds the window that a sender's frame may claim: what every
// decoder must support. The Collector's own gRPC decoder takes 512 MiB, so that
// a request of some bytes makes it allocate as much.
const maxZstdWindow = 8 << 20

func init() { encoding.RegisterCompressor(boundedZstd{}) }

// boundedZstd is gRPC's zstd with a bounded window.
type boundedZstd struct{}

// Name is the value of grpc-encoding.
func (boundedZstd) Name() string { return "zstd" }

// Compress is for the exporters of the same process.
func (boundedZstd) Compress(w io.Writer) (io.WriteCloser, error) {
	return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(maxZstdWindow))
}

// Decompress refuses frames with a larger window. gRPC bounds what it reads.
func (boundedZstd) Decompress(r io.Reader) (io.Reader, error) {
	d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxZstdWindow))
	if err != nil {
		return nil, err
	}
	return &closingDecoder{d}, nil
}

// closingDecoder frees the decoder at the message's end.
type closingDecoder struct{ *zstd.Decoder }

func (d *closingDecoder) Read(p []byte) (int, error) {
	n, err := d.Decoder.Read(p)
	if err != nil {
		d.Close()
	}
	return n, err
}
