// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package trace // import "github.com/otelcol-sglang/otelcol-sglang/engine/trace"

import (
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// proc is one thread of the engine that traces: a process's main thread, or a KV
// transfer worker inside a scheduler.
type proc struct {
	id    Process
	ranks sglang.Ranks
	host  string
	pid   int64
	label string
	// name is that of its thread spans.
	name string
	// epoch is the wall time of engine time 0, Unix ns.
	epoch int64
	lag   lag
	// roots takes request roots, slices all else; one exporter unless tracing is async.
	roots, slices *exporter
	// seed is for the ids of this rank's batches.
	seed uint64
	// transfer is the KV transfer thread, made when used.
	transfer *proc
}

// wall is what time.time_ns() says at engine time t.
func (p *proc) wall(t time.Duration) int64 { return p.epoch + int64(t+p.lag.at(t)) }

// float is the same reading as float seconds hold it: whole multiples of 256 ns.
func (p *proc) float(t time.Duration) int64 { return int64(float64(p.wall(t))) }

func (p *proc) writeAttributes(m pcommon.Map) {
	p.writeRank(m, sglang.AttrTPRank, p.ranks.TP)
	p.writeRank(m, sglang.AttrPPRank, p.ranks.PP)
	p.writeRank(m, sglang.AttrDPRank, p.ranks.DP)
	m.PutStr(sglang.AttrHostID, p.host)
	m.PutInt(sglang.AttrPID, p.pid)
	m.PutStr(sglang.AttrThreadLabel, p.label)
}

func (*proc) writeRank(m pcommon.Map, key string, rank int32) {
	if rank != sglang.NoRank {
		m.PutInt(key, int64(rank))
	}
}

// threadName has the blanks that the engine writes.
func (p *proc) threadName() string {
	var b strings.Builder
	b.WriteString(p.label)
	for _, r := range []struct {
		name string
		rank int32
	}{{"TP", p.ranks.TP}, {"PP", p.ranks.PP}, {"DP", p.ranks.DP}} {
		if r.rank != sglang.NoRank {
			fmt.Fprintf(&b, " [%s %d] ", r.name, r.rank)
		}
	}
	fmt.Fprintf(&b, "(host:%s | pid:%d)", p.host[:min(8, len(p.host))], p.pid)
	return b.String()
}

// label is a process's thread label.
func (c *Config) label(id Process, pid int64) string {
	role := map[string]string{args.Prefill: sglang.LabelPrefill, args.Decode: sglang.LabelDecode}[c.Mode]
	spaced := role
	if role != "" {
		spaced += " "
	}
	switch id.Kind {
	case sglang.ProcessScheduler:
		return spaced + sglang.LabelScheduler
	case sglang.ProcessDPController:
		return spaced + sglang.LabelDPController
	case sglang.ProcessEncoder:
		return sglang.LabelEncoder
	}
	switch {
	case c.Workers > 1:
		return fmt.Sprintf("%s%s-%d", role, sglang.MultiTokenizerLabelInfix, pid)
	case c.EngineAPI:
		return spaced + sglang.LabelTokenizer
	}
	return role + sglang.LabelTokenizer
}

// transferWorker makes a scheduler's KV transfer thread. It always has a DP rank, and
// no PP rank. The engine has several and chooses by the peer's address: a simulated
// engine has one peer.
func (p *proc) transferWorker(pid int64) *proc {
	w := &proc{
		id: p.id, host: p.host, pid: pid, epoch: p.epoch, lag: p.lag, roots: p.roots, slices: p.slices,
		label: sglang.TransferWorkerLabelPrefix + " 0",
		ranks: sglang.Ranks{TP: p.ranks.TP, PP: sglang.NoRank, DP: max(0, p.ranks.DP)},
	}
	w.name = w.threadName()
	return w
}
