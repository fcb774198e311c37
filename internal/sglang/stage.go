// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sglang // import "github.com/otelcol-sglang/otelcol-sglang/internal/sglang"

// Stage is one step in the life of a request, as the engine's slice spans name it.
type Stage uint8

// Stages in the order in which a request passes them.
const (
	// StageUnknown is a slice whose name no release in the tables uses.
	StageUnknown Stage = iota
	StageTokenize
	StageAPIServerDispatch
	StageDPCDispatch
	StageMMEncode
	StageRequestProcess
	StagePrefillPrepare
	StagePrefillBootstrap
	StageDecodePrepare
	StageDecodeBootstrap
	StageDecodeTransferred
	StagePrefillWaiting
	StagePrefillForward
	StageChunkedPrefill
	StagePrefillTransferKVCache
	StageDecodeWaiting
	StageDecodeForward
	StageFakeOutput
	StageDecodeLoop
	StageSpecDraft
	StageSpecVerify
	StageSpecDraftExtend
	StageRunBatchCPU
	StageQuickFinish
	StageMooncakeSend
	StageMooncakeWorkerSend
	StageMooncakeWorkerSendSession
	StageMooncakeRecv
	StageMooncakeWorkerRecv

	stageCount
)

// Process is the kind of engine process that emits a stage.
type Process uint8

const (
	// ProcessUnknown emits stages that this package does not know.
	ProcessUnknown Process = iota
	// ProcessFrontEnd is the API server with the tokenizer: one copy of each span.
	ProcessFrontEnd
	// ProcessDPController routes requests to data-parallel replicas: one copy.
	ProcessDPController
	// ProcessScheduler is one rank: every TP and PP rank that owns the request emits a copy.
	ProcessScheduler
	// ProcessEncoder is a multimodal encoder (EPD).
	ProcessEncoder
	// ProcessTransfer is a KV transfer worker thread inside a scheduler's process.
	ProcessTransfer
)

// StageInfo is what is known about a stage.
type StageInfo struct {
	// Name is the slice's name in release 0.5.23.
	Name string
	// Level is the lowest trace level (SGLANG_TRACE_LEVEL) that emits the slice.
	Level int
	// Process is the kind of process that emits it.
	Process Process
	// Nested stages have a slice as their parent and carry no link; the others
	// are children of a thread span and link to the slice before them.
	Nested bool
	// Repeated stages occur many times under one parent; the others once, except
	// after a retraction.
	Repeated bool
}

var stages = [stageCount]StageInfo{
	StageUnknown:                   {Name: ""},
	StageTokenize:                  {Name: "tokenize", Level: 1, Process: ProcessFrontEnd},
	StageAPIServerDispatch:         {Name: "api_server_dispatch", Level: 2, Process: ProcessFrontEnd},
	StageDPCDispatch:               {Name: "dpc_dispatch", Level: 2, Process: ProcessDPController},
	StageMMEncode:                  {Name: "mm_encode", Level: 1, Process: ProcessEncoder},
	StageRequestProcess:            {Name: "request_process", Level: 2, Process: ProcessScheduler},
	StagePrefillPrepare:            {Name: "prefill_prepare", Level: 1, Process: ProcessScheduler},
	StagePrefillBootstrap:          {Name: "prefill_bootstrap", Level: 1, Process: ProcessScheduler},
	StageDecodePrepare:             {Name: "decode_prepare", Level: 1, Process: ProcessScheduler},
	StageDecodeBootstrap:           {Name: "decode_bootstrap", Level: 1, Process: ProcessScheduler},
	StageDecodeTransferred:         {Name: "decode_transferred", Level: 1, Process: ProcessScheduler},
	StagePrefillWaiting:            {Name: "prefill_waiting", Level: 1, Process: ProcessScheduler},
	StagePrefillForward:            {Name: "prefill_forward", Level: 1, Process: ProcessScheduler, Repeated: true},
	StageChunkedPrefill:            {Name: "chunked_prefill", Level: 3, Process: ProcessScheduler, Nested: true, Repeated: true},
	StagePrefillTransferKVCache:    {Name: "prefill_transfer_kv_cache", Level: 1, Process: ProcessScheduler},
	StageDecodeWaiting:             {Name: "decode_waiting", Level: 1, Process: ProcessScheduler},
	StageDecodeForward:             {Name: "decode_forward", Level: 1, Process: ProcessScheduler},
	StageFakeOutput:                {Name: "fake_output", Level: 3, Process: ProcessScheduler, Nested: true},
	StageDecodeLoop:                {Name: "decode_loop", Level: 3, Process: ProcessScheduler, Nested: true, Repeated: true},
	StageSpecDraft:                 {Name: "spec_draft", Level: 2, Process: ProcessScheduler, Nested: true, Repeated: true},
	StageSpecVerify:                {Name: "spec_verify", Level: 2, Process: ProcessScheduler, Nested: true, Repeated: true},
	StageSpecDraftExtend:           {Name: "spec_draft_extend", Level: 2, Process: ProcessScheduler, Nested: true, Repeated: true},
	StageRunBatchCPU:               {Name: "run_batch_cpu", Level: 4, Process: ProcessScheduler, Nested: true, Repeated: true},
	StageQuickFinish:               {Name: "quick_finish", Level: 1, Process: ProcessScheduler},
	StageMooncakeSend:              {Name: "mooncake_send", Level: 1, Process: ProcessScheduler, Repeated: true},
	StageMooncakeWorkerSend:        {Name: "mooncake_worker_send", Level: 1, Process: ProcessTransfer, Repeated: true},
	StageMooncakeWorkerSendSession: {Name: "mooncake_worker_send_session", Level: 2, Process: ProcessTransfer, Nested: true, Repeated: true},
	StageMooncakeRecv:              {Name: "mooncake_recv", Level: 1, Process: ProcessScheduler, Repeated: true},
	StageMooncakeWorkerRecv:        {Name: "mooncake_worker_recv", Level: 1, Process: ProcessTransfer, Repeated: true},
}

// stageAliases are slice names of older releases; the comment is the last
// release seen with the name.
var stageAliases = map[string]Stage{
	"dispatch":    StageAPIServerDispatch, // 0.5.9
	"dc_dispatch": StageDPCDispatch,       // 0.5.9
	"process req": StageRequestProcess,    // 0.5.3
	"prefill":     StagePrefillForward,    // 0.5.3
	"decode loop": StageDecodeLoop,        // 0.5.3
}

var stageByName = func() map[string]Stage {
	byName := make(map[string]Stage, int(stageCount)+len(stageAliases))
	for s := StageUnknown + 1; s < stageCount; s++ {
		byName[stages[s].Name] = s
	}
	for name, s := range stageAliases {
		byName[name] = s
	}
	return byName
}()

// StageOf returns the stage that a slice's name stands for in any known
// release, or StageUnknown. It does not allocate.
func StageOf(name string) Stage { return stageByName[name] }

// Info returns what is known about the stage.
func (s Stage) Info() StageInfo {
	if s >= stageCount {
		return StageInfo{}
	}
	return stages[s]
}

// String returns the stage's slice name in release 0.5.23, or "unknown".
func (s Stage) String() string {
	if name := s.Info().Name; name != "" {
		return name
	}
	return "unknown"
}
