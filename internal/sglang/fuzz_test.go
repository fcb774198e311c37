// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sglang_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// FuzzRecognise: whatever a span's name and attributes say, it is recognised without a
// panic, ranks are in their range, and room 0 is none.
func FuzzRecognise(f *testing.F) {
	f.Add("prefill Req 1b3f", sglang.AttrThreadLabel, "Prefill Scheduler", int64(3))
	f.Add("Bootstrap Room 0x1f", sglang.AttrBootstrapRoom, "0x31e1", int64(-1))
	f.Add("decode_loop", sglang.AttrTPRank, "None", int64(1)<<40)
	f.Fuzz(func(t *testing.T, name, key, text string, number int64) {
		for _, fill := range []func(pcommon.Map){
			func(m pcommon.Map) { m.PutStr(key, text) },
			func(m pcommon.Map) { m.PutInt(key, number) },
			func(m pcommon.Map) { m.PutEmptySlice(key).AppendEmpty().SetStr(text) },
		} {
			span := ptrace.NewSpan()
			span.SetName(name)
			fill(span.Attributes())
			_, _, _ = sglang.KindOf(span).String(), sglang.RoleOf(name).String(), sglang.StageOf(name).String()
			thread := sglang.ThreadOf(span.Attributes())
			_ = sglang.ProcessOf(thread.Label)
			for _, rank := range []int32{thread.Ranks.TP, thread.Ranks.PP, thread.Ranks.DP} {
				require.GreaterOrEqual(t, rank, int32(sglang.NoRank))
			}
			if room, ok := sglang.BootstrapRoom(span.Attributes()); ok {
				require.NotZero(t, room)
			}
		}
		require.False(t, sglang.KnownAttribute(key) && sglang.ContentAttribute(key), key)
	})
}
