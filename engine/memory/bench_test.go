// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"fmt"
	"testing"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
)

// BenchmarkRequest is what one request of 4,096 prompt tokens, three quarters of them
// shared with others, and 128 output tokens asks of the memory.
func BenchmarkRequest(b *testing.B) {
	for _, pageSize := range []int{1, 64} {
		for _, tiers := range []bool{false, true} {
			b.Run(fmt.Sprintf("page=%d/tiers=%v", pageSize, tiers), func(b *testing.B) { benchRequest(b, pageSize, tiers) })
		}
	}
}

func benchRequest(b *testing.B, pageSize int, tiers bool) {
	a := args.Default()
	a.PageSize = pageSize
	a.EnableHierarchicalCache = tiers
	if tiers {
		a.HiCacheStorageBackend = "file"
	}
	loop := clock.NewVirtual(time.Unix(0, 0))
	m, err := New(&a, Sizes{Tokens: 400000, BytesPerToken: 1 << 15}, loop, ledger.NopRadix{}, ledger.NopStorage{})
	if err != nil {
		b.Fatal(err)
	}
	tokens := make([]int32, 4096+128)
	b.ReportAllocs()
	for i := range b.N {
		for j := range tokens {
			tokens[j] = int32(i%50*5000 + j)
			if j >= 3072 {
				tokens[j] += int32(i + 1000000)
			}
		}
		r := ledger.NewRequest("r", ledger.KindChat)
		p := m.Match(r, tokens[:4096])
		h, ok := m.Begin(r, tokens, p, 4096-p.Device-p.Host-p.Storage)
		if !ok {
			b.Fatal("no room")
		}
		m.Cache(h, tokens[:4096])
		for range 128 {
			m.Extend(h, 1)
		}
		m.Finish(h, tokens)
		loop.RunUntil(loop.Now() + 4*time.Millisecond)
	}
	if err := m.Check(); err != nil {
		b.Fatal(err)
	}
}
