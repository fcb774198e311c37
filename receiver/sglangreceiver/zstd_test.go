// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sglangreceiver

import (
	"bytes"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/encoding"
)

func TestZstdRoundTrip(t *testing.T) {
	c := encoding.GetCompressor("zstd")
	require.IsType(t, boundedZstd{}, c, "another package registered zstd later")
	var packed bytes.Buffer
	w, err := c.Compress(&packed)
	require.NoError(t, err)
	text := strings.Repeat("decode_loop ", 1<<20)
	_, err = io.WriteString(w, text)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	r, err := c.Decompress(&packed)
	require.NoError(t, err)
	got, err := io.ReadAll(r)
	require.NoError(t, err)
	assert.Equal(t, text, string(got))
}

// TestZstdWindow: a frame of some bytes that claims a window of 512 MiB.
func TestZstdWindow(t *testing.T) {
	frame := []byte{
		0x28, 0xb5, 0x2f, 0xfd, // magic number
		0x00,       // no content size, no checksum
		19 << 3,    // window descriptor: 2^(10+19)
		0x02, 0, 0, // a last RLE block of length 0
		'a',
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r, err := boundedZstd{}.Decompress(bytes.NewReader(frame))
	require.NoError(t, err)
	_, err = io.ReadAll(r)
	runtime.ReadMemStats(&after)
	require.ErrorContains(t, err, "window")
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4<<20))
}
