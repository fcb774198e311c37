// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package collector // import "github.com/otelcol-sglang/otelcol-sglang/test/internal/collector"

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"
)

// Listeners are the addresses at which the process takes connections, as the Linux
// kernel knows them.
func (c *Collector) Listeners() []netip.AddrPort {
	c.t.Helper()
	proc := fmt.Sprintf("/proc/%d", c.cmd.Process.Pid)
	own := map[string]bool{}
	links, err := filepath.Glob(proc + "/fd/*")
	require.NoError(c.t, err)
	for _, link := range links {
		// A file may have been closed meanwhile.
		if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, "socket:[") {
			own[strings.TrimSuffix(strings.TrimPrefix(to, "socket:["), "]")] = true
		}
	}
	var out []netip.AddrPort
	for _, table := range []string{"tcp", "tcp6"} {
		raw, err := os.ReadFile(filepath.Join(proc, "net", table))
		require.NoError(c.t, err)
		for line := range strings.Lines(string(raw)) {
			const local, state, inode, listening = 1, 3, 9, "0A"
			if f := strings.Fields(line); len(f) > inode && f[state] == listening && own[f[inode]] {
				out = append(out, c.address(f[local]))
			}
		}
	}
	return out
}

// address reads the kernel's form: words of four bytes in the machine's order (here
// little-endian), and the port.
func (c *Collector) address(text string) netip.AddrPort {
	c.t.Helper()
	host, port, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(host)
	require.NoError(c.t, err)
	for word := range slices.Chunk(raw, 4) {
		binary.BigEndian.PutUint32(word, binary.LittleEndian.Uint32(word))
	}
	ip, ok := netip.AddrFromSlice(raw)
	require.True(c.t, ok, text)
	n, err := strconv.ParseUint(port, 16, 16)
	require.NoError(c.t, err)
	return netip.AddrPortFrom(ip.Unmap(), uint16(n))
}
