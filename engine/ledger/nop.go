// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

//nolint:revive // what the methods do not do, the interfaces say
package ledger // import "github.com/otelcol-sglang/otelcol-sglang/engine/ledger"

import (
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// Nop implements each recorder's interface and records nothing.
type (
	NopTracer    struct{}
	NopScheduler struct{}
	NopTokenizer struct{}
	NopRadix     struct{}
	NopStorage   struct{}
	NopExpert    struct{}
	NopHTTP      struct{}
	NopProcess   struct{}
)

var (
	_ Tracer             = NopTracer{}
	_ SchedulerCollector = NopScheduler{}
	_ TokenizerCollector = NopTokenizer{}
	_ RadixCollector     = NopRadix{}
	_ StorageCollector   = NopStorage{}
	_ ExpertCollector    = NopExpert{}
	_ HTTPCollector      = NopHTTP{}
	_ ProcessCollector   = NopProcess{}
)

func (NopTracer) Start(*Request, time.Duration)                                 {}
func (NopTracer) FrontEnd(*Request, sglang.Stage, time.Duration, time.Duration) {}
func (NopTracer) Finish(*Request, time.Duration)                                {}
func (NopTracer) Forget(*Request)                                               {}
func (NopTracer) Dispatch(*Request, time.Duration, time.Duration)               {}
func (NopTracer) Slice(*Request, *Place, sglang.Stage, Reading, Reading, int)   {}
func (NopTracer) Open(*Request, *Place, sglang.Stage, Reading)                  {}
func (NopTracer) Close(*Request, *Place, sglang.Stage, Reading)                 {}
func (NopTracer) Schedule(*Request, *Place, *Batch, Reading)                    {}
func (NopTracer) Retract(*Request, *Place, Reading)                             {}
func (NopTracer) EndThread(*Request, *Place, Reading, bool)                     {}

func (NopScheduler) Constants(*Constants)                                              {}
func (NopScheduler) Report(*Snapshot)                                                  {}
func (NopScheduler) QueueTime(time.Duration)                                           {}
func (NopScheduler) StageLatency(sglang.Stage, time.Duration)                          {}
func (NopScheduler) Retracted(int, int, int)                                           {}
func (NopScheduler) RealtimeTokens(string, int, int)                                   {}
func (NopScheduler) EffectiveTokens(string, int)                                       {}
func (NopScheduler) Pass(string)                                                       {}
func (NopScheduler) Forward(string, time.Duration, int)                                {}
func (NopScheduler) LoopTime(string, string, time.Duration)                            {}
func (NopScheduler) Idle(time.Duration)                                                {}
func (NopScheduler) CPU(time.Duration)                                                 {}
func (NopScheduler) MFU(float64, float64, float64)                                     {}
func (NopScheduler) DPStep(*DPStep)                                                    {}
func (NopScheduler) KVTransfer(*Transfer)                                              {}
func (NopScheduler) BootstrapFailed()                                                  {}
func (NopScheduler) TransferFailed()                                                   {}
func (NopScheduler) PrefillRetry()                                                     {}
func (NopScheduler) HostReceive(int)                                                   {}
func (NopScheduler) DeferredRelease(string, time.Duration)                             {}
func (NopScheduler) PrefillDelayed(int, time.Duration, string, string, string, string) {}
func (NopScheduler) WeightsUpdated(string, time.Duration)                              {}
func (NopScheduler) Balancedness(string, float64)                                      {}

func (NopTokenizer) Finished(*Request)                       {}
func (NopTokenizer) FirstToken(*Request, time.Duration)      {}
func (NopTokenizer) InterToken(*Request, time.Duration, int) {}
func (NopTokenizer) Aborted(*Request)                        {}
func (NopTokenizer) LoadsQueried(time.Duration)              {}

func (NopRadix) Evicted(int, time.Duration)                   {}
func (NopRadix) LoadedBack(string, int, int64, time.Duration) {}
func (NopRadix) BackedUp(string, int, int64, time.Duration)   {}
func (NopRadix) Dropped(string, string, int)                  {}

func (NopStorage) Prefetched(int, int, int64, time.Duration) {}
func (NopStorage) BackedUp(int, int, int64, time.Duration)   {}
func (NopStorage) Hit(int)                                   {}
func (NopStorage) Unfulfilled(string, int)                   {}
func (NopStorage) Deferred(string, int)                      {}
func (NopStorage) BackupDropped(int)                         {}
func (NopStorage) AuxAllocFailed(int)                        {}

func (NopExpert) Dispatched(int, []int) {}

func (NopHTTP) Request(string, string)       {}
func (NopHTTP) Response(string, string, int) {}
func (NopHTTP) Active(string, string, int)   {}
func (NopHTTP) RoutingKeys(int)              {}

func (NopProcess) ProcessCPU(string, time.Duration) {}
