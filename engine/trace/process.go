// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package trace // import "github.com/otelcol-sglang/otelcol-sglang/engine/trace"

import (
	"fmt"
	"strings"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// Process names one exporter of the engine.
type Process struct {
	Kind sglang.Process
	// Ranks of a scheduler, [sglang.NoRank] where it has none.
	sglang.Ranks
	// Worker numbers tokenizer workers.
	Worker int
	// Daemon is the exporter daemon beside a process (SGLANG_TRACE_ASYNC).
	Daemon bool
}

// FrontEnd is a front end's process.
func FrontEnd(worker int) Process {
	return Process{Kind: sglang.ProcessFrontEnd, Ranks: sglang.NoRanks, Worker: worker}
}

// Scheduler is the process of one rank; dp is [sglang.NoRank] where DP is off.
func Scheduler(tp, pp, dp int) Process {
	return Process{
		Kind:  sglang.ProcessScheduler,
		Ranks: sglang.Ranks{TP: int32(tp), PP: int32(pp), DP: int32(dp)},
	}
}

var (
	dpController = Process{Kind: sglang.ProcessDPController, Ranks: sglang.NoRanks}
	encoder      = Process{Kind: sglang.ProcessEncoder, Ranks: sglang.NoRanks}
)

// String is for people.
func (p Process) String() string {
	var b strings.Builder
	b.WriteString(p.kind())
	for _, r := range []struct {
		name string
		rank int32
	}{{"dp", p.DP}, {"pp", p.PP}, {"tp", p.TP}} {
		if r.rank != sglang.NoRank {
			fmt.Fprintf(&b, " %s%d", r.name, r.rank)
		}
	}
	if p.Worker > 0 {
		fmt.Fprintf(&b, " worker%d", p.Worker)
	}
	if p.Daemon {
		b.WriteString(" daemon")
	}
	return b.String()
}

func (p Process) kind() string {
	switch p.Kind {
	case sglang.ProcessFrontEnd:
		return "frontend"
	case sglang.ProcessDPController:
		return "dp controller"
	case sglang.ProcessEncoder:
		return "encoder"
	}
	return "scheduler"
}

// key is a number of its own for each process of an engine.
func (p Process) key() uint64 {
	k := uint64(p.Kind)
	for _, n := range []int32{p.TP, p.PP, p.DP, int32(p.Worker)} {
		k = k<<14 | uint64(n+1)&0x3fff
	}
	if p.Daemon {
		k ^= 1 << 63
	}
	return k
}
