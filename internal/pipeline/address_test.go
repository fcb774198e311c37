// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// freeAddress returns an address on which nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "localhost:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}
