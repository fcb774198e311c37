// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package page // import "github.com/otelcol-sglang/otelcol-sglang/engine/page"

import (
	"io"
	"strconv"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// LoadsContentType is that of what [WriteLoads] writes.
const LoadsContentType = contentTypeText

// Load is what /v1/loads says of one scheduler: the JSON of one entry of "loads",
// and the series of one dp_rank where a Prometheus page is asked for. A section
// that is nil is off or was not asked for.
type Load struct {
	DPRank    int     `json:"dp_rank"`
	Timestamp float64 `json:"timestamp"` // Unix seconds

	NumRunningReqs           int `json:"num_running_reqs"`
	NumWaitingReqs           int `json:"num_waiting_reqs"`
	NumWaitingUncachedTokens int `json:"num_waiting_uncached_tokens"`
	NumUsedTokens            int `json:"num_used_tokens"`
	// NumTotalTokens are used ones and those of waiting requests.
	NumTotalTokens        int     `json:"num_total_tokens"`
	NumActiveTokens       int     `json:"num_active_tokens"`
	NumPreallocReady      int     `json:"num_prealloc_ready_tokens"`
	MaxTotalNumTokens     int     `json:"max_total_num_tokens"`
	MaxRunningRequests    int     `json:"max_running_requests"`
	TokenUsage            float64 `json:"token_usage"`
	GenThroughput         float64 `json:"gen_throughput"`
	CacheHitRate          float64 `json:"cache_hit_rate"`
	Utilization           float64 `json:"utilization"`
	PrefillUncachedTokens int64   `json:"total_prefill_uncached_tokens"` // since start
	PrefillBusyUS         int64   `json:"total_prefill_busy_us"`         // since start

	Memory *MemoryLoad `json:"memory,omitempty"`
	Spec   *SpecLoad   `json:"speculative,omitempty"`
	LoRA   *LoRALoad   `json:"lora,omitempty"`
	Disagg *DisaggLoad `json:"disaggregation,omitempty"`
	Queues *QueuesLoad `json:"queues,omitempty"`
}

// MemoryLoad is of one GPU.
type MemoryLoad struct {
	WeightGB      float64 `json:"weight_gb"`
	KVCacheGB     float64 `json:"kv_cache_gb"`
	GraphGB       float64 `json:"graph_gb"`
	TokenCapacity int     `json:"token_capacity"`
}

// SpecLoad is of the engine's lifetime.
type SpecLoad struct {
	AcceptLength float64 `json:"accept_length"`
	AcceptRate   float64 `json:"accept_rate"`
}

// LoRALoad is of the running batch.
type LoRALoad struct {
	SlotsUsed   int     `json:"slots_used"`
	SlotsTotal  int     `json:"slots_total"`
	Utilization float64 `json:"utilization"`
}

// DisaggLoad are a PD half's queues.
type DisaggLoad struct {
	Mode                      string  `json:"mode"`
	PrefillBootstrapQueueReqs int     `json:"prefill_bootstrap_queue_reqs"`
	PrefillInflightQueueReqs  int     `json:"prefill_inflight_queue_reqs"`
	DecodePreallocQueueReqs   int     `json:"decode_prealloc_queue_reqs"`
	DecodeTransferQueueReqs   int     `json:"decode_transfer_queue_reqs"`
	DecodeRetractedQueueReqs  int     `json:"decode_retracted_queue_reqs"`
	KVTransferSpeedGBS        float64 `json:"kv_transfer_speed_gb_s"`
	KVTransferLatencyMS       float64 `json:"kv_transfer_latency_ms"`
}

// QueuesLoad splits the waiting requests.
type QueuesLoad struct {
	Waiting       int `json:"waiting"`
	Grammar       int `json:"grammar"`
	Paused        int `json:"paused"`
	Retracted     int `json:"retracted"`
	PreallocReady int `json:"prealloc_ready"`
}

// WriteLoads writes the Prometheus page of /v1/loads: every family a gauge with
// the label dp_rank, without HELP; those of a section only where a load has it.
func WriteLoads(w io.Writer, loads []Load) error {
	byName := map[sglang.LoadsName]*dto.MetricFamily{}
	for i := range loads {
		rank := strconv.Itoa(loads[i].DPRank)
		loads[i].each(func(name sglang.LoadsName, v float64) {
			f := byName[name]
			if f == nil {
				f = &dto.MetricFamily{Name: new(string(name)), Type: dto.MetricType_GAUGE.Enum()}
				byName[name] = f
			}
			f.Metric = append(f.Metric, &dto.Metric{
				Label: []*dto.LabelPair{{Name: new(sglang.LabelDPRank), Value: &rank}},
				Gauge: &dto.Gauge{Value: &v},
			})
		})
	}
	for name := range sglang.LoadsFamilies() {
		if f := byName[name]; f != nil {
			if _, err := expfmt.MetricFamilyToText(w, f); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *Load) each(put func(sglang.LoadsName, float64)) {
	put(sglang.LoadsTimestamp, l.Timestamp)
	put(sglang.LoadsNumRunningReqs, float64(l.NumRunningReqs))
	put(sglang.LoadsNumWaitingReqs, float64(l.NumWaitingReqs))
	put(sglang.LoadsNumWaitingUncachedTokens, float64(l.NumWaitingUncachedTokens))
	put(sglang.LoadsNumUsedTokens, float64(l.NumUsedTokens))
	put(sglang.LoadsNumTotalTokens, float64(l.NumTotalTokens))
	put(sglang.LoadsNumActiveTokens, float64(l.NumActiveTokens))
	put(sglang.LoadsNumPreallocReadyTokens, float64(l.NumPreallocReady))
	put(sglang.LoadsMaxTotalNumTokens, float64(l.MaxTotalNumTokens))
	put(sglang.LoadsMaxRunningRequests, float64(l.MaxRunningRequests))
	put(sglang.LoadsTokenUsage, l.TokenUsage)
	put(sglang.LoadsGenThroughput, l.GenThroughput)
	put(sglang.LoadsCacheHitRate, l.CacheHitRate)
	put(sglang.LoadsUtilization, l.Utilization)
	put(sglang.LoadsTotalPrefillUncachedTokens, float64(l.PrefillUncachedTokens))
	put(sglang.LoadsTotalPrefillBusyUS, float64(l.PrefillBusyUS))
	l.eachOfSections(put)
}

func (l *Load) eachOfSections(put func(sglang.LoadsName, float64)) {
	if m := l.Memory; m != nil {
		put(sglang.LoadsMemoryWeightGB, m.WeightGB)
		put(sglang.LoadsMemoryKVCacheGB, m.KVCacheGB)
		put(sglang.LoadsMemoryGraphGB, m.GraphGB)
		put(sglang.LoadsMemoryTokenCapacity, float64(m.TokenCapacity))
	}
	if s := l.Spec; s != nil {
		put(sglang.LoadsSpecAcceptLength, s.AcceptLength)
		put(sglang.LoadsSpecAcceptRate, s.AcceptRate)
	}
	if r := l.LoRA; r != nil {
		put(sglang.LoadsLoRASlotsUsed, float64(r.SlotsUsed))
		put(sglang.LoadsLoRASlotsTotal, float64(r.SlotsTotal))
		put(sglang.LoadsLoRAUtilization, r.Utilization)
	}
	if d := l.Disagg; d != nil {
		d.each(put)
	}
	if q := l.Queues; q != nil {
		put(sglang.LoadsQueuesWaiting, float64(q.Waiting))
		put(sglang.LoadsQueuesGrammar, float64(q.Grammar))
		put(sglang.LoadsQueuesPaused, float64(q.Paused))
		put(sglang.LoadsQueuesRetracted, float64(q.Retracted))
		put(sglang.LoadsQueuesPreallocReady, float64(q.PreallocReady))
	}
}

func (d *DisaggLoad) each(put func(sglang.LoadsName, float64)) {
	put(sglang.LoadsDisaggPrefillBootstrapQueueReqs, float64(d.PrefillBootstrapQueueReqs))
	put(sglang.LoadsDisaggPrefillInflightQueueReqs, float64(d.PrefillInflightQueueReqs))
	put(sglang.LoadsDisaggDecodePreallocQueueReqs, float64(d.DecodePreallocQueueReqs))
	put(sglang.LoadsDisaggDecodeTransferQueueReqs, float64(d.DecodeTransferQueueReqs))
	put(sglang.LoadsDisaggDecodeRetractedQueueReqs, float64(d.DecodeRetractedQueueReqs))
	put(sglang.LoadsDisaggKVTransferSpeedGBS, d.KVTransferSpeedGBS)
	put(sglang.LoadsDisaggKVTransferLatencyMS, d.KVTransferLatencyMS)
}
