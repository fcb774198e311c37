// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package api // import "github.com/otelcol-sglang/otelcol-sglang/engine/api"

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// Load is one DP rank's part of /v1/loads (managers/load_snapshot.py).
type Load struct {
	Timestamp             float64    `json:"timestamp"`
	DPRank                int        `json:"dp_rank"`
	RunningReqs           int        `json:"num_running_reqs"`
	WaitingReqs           int        `json:"num_waiting_reqs"`
	WaitingUncachedTokens int        `json:"num_waiting_uncached_tokens"`
	UsedTokens            int        `json:"num_used_tokens"`
	TotalTokens           int        `json:"num_total_tokens"`
	ActiveTokens          int        `json:"num_active_tokens"`
	PreallocReadyTokens   int        `json:"num_prealloc_ready_tokens"`
	MaxTotalNumTokens     int        `json:"max_total_num_tokens"`
	MaxRunningRequests    int        `json:"max_running_requests"`
	TokenUsage            float64    `json:"token_usage"`
	GenThroughput         float64    `json:"gen_throughput"`
	CacheHitRate          float64    `json:"cache_hit_rate"`
	Utilization           float64    `json:"utilization"`
	PrefillUncachedTokens int        `json:"total_prefill_uncached_tokens"`
	PrefillBusyMicros     int64      `json:"total_prefill_busy_us"`
	DecodeMoments         []float64  `json:"decode_moments"`
	Memory                *MemLoad   `json:"memory,omitempty"`
	Speculative           *SpecLoad  `json:"speculative,omitempty"`
	LoRA                  *LoRALoad  `json:"lora,omitempty"`
	Disaggregation        *PDLoad    `json:"disaggregation,omitempty"`
	Queues                *QueueLoad `json:"queues,omitempty"`
}

// MemLoad is the section "memory".
type MemLoad struct {
	WeightGB      float64 `json:"weight_gb"`
	KVCacheGB     float64 `json:"kv_cache_gb"`
	GraphGB       float64 `json:"graph_gb"`
	TokenCapacity int     `json:"token_capacity"`
}

// SpecLoad is the section "spec".
type SpecLoad struct {
	AcceptLength float64 `json:"accept_length"`
	AcceptRate   float64 `json:"accept_rate"`
}

// LoRALoad is the section "lora".
type LoRALoad struct {
	SlotsUsed   int     `json:"slots_used"`
	SlotsTotal  int     `json:"slots_total"`
	Utilization float64 `json:"utilization"`
}

// PDLoad is the section "disagg".
type PDLoad struct {
	Mode             string  `json:"mode"`
	PrefillBootstrap int     `json:"prefill_bootstrap_queue_reqs"`
	PrefillInflight  int     `json:"prefill_inflight_queue_reqs"`
	DecodePrealloc   int     `json:"decode_prealloc_queue_reqs"`
	DecodeTransfer   int     `json:"decode_transfer_queue_reqs"`
	DecodeRetracted  int     `json:"decode_retracted_queue_reqs"`
	TransferSpeed    float64 `json:"kv_transfer_speed_gb_s"`
	TransferLatency  float64 `json:"kv_transfer_latency_ms"`
}

// QueueLoad is the section "queues".
type QueueLoad struct {
	Waiting       int `json:"waiting"`
	Grammar       int `json:"grammar"`
	Paused        int `json:"paused"`
	Retracted     int `json:"retracted"`
	PreallocReady int `json:"prealloc_ready"`
}

var validSections = []string{"all", "core", "disagg", "lora", "memory", "queues", "spec"}

// parseSections is nil for all.
func parseSections(include string) ([]string, error) {
	if include == "" {
		return nil, nil
	}
	sections := strings.Split(include, ",")
	for i := range sections {
		sections[i] = strings.TrimSpace(sections[i])
		if !slices.Contains(validSections, sections[i]) {
			return nil, fmt.Errorf("Invalid include sections: {'%s'}. Valid options: ['%s']", //nolint:staticcheck // the engine's words
				sections[i], strings.Join(validSections, "', '"))
		}
	}
	if slices.Contains(sections, "all") {
		return nil, nil
	}
	return sections, nil
}

func (l *Load) keep(sections []string) {
	if sections == nil {
		return
	}
	has := func(name string) bool { return slices.Contains(sections, name) }
	if !has("memory") {
		l.Memory = nil
	}
	if !has("spec") {
		l.Speculative = nil
	}
	if !has("lora") {
		l.LoRA = nil
	}
	if !has("disagg") {
		l.Disaggregation = nil
	}
	if !has("queues") {
		l.Queues = nil
	}
}

// sectionPrefixes are shorter on the page.
var sectionPrefixes = map[string]string{"speculative": "spec", "disaggregation": "disagg"}

// loadsPage is format=prometheus: every number as a gauge without help.
func (s *Service) loadsPage(w http.ResponseWriter, loads []Load) {
	families := map[string]*dto.MetricFamily{}
	for i := range loads {
		values := map[string]float64{}
		flatten(values, "sglang_", fieldsOf(&loads[i]))
		rank := strconv.Itoa(loads[i].DPRank)
		for name, v := range values {
			f := families[name]
			if f == nil {
				f = &dto.MetricFamily{Name: &name, Type: dto.MetricType_GAUGE.Enum()}
				families[name] = f
			}
			label := sglang.LabelDPRank
			f.Metric = append(f.Metric, &dto.Metric{
				Label: []*dto.LabelPair{{Name: &label, Value: &rank}}, Gauge: &dto.Gauge{Value: &v},
			})
		}
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	names := make([]string, 0, len(families))
	for name := range families {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		// The client may be gone.
		_, _ = expfmt.MetricFamilyToText(w, families[name])
	}
}

func fieldsOf(l *Load) map[string]any {
	var fields map[string]any
	// Plain structs always marshal, and what was marshalled can be read.
	data, _ := json.Marshal(l)
	_ = json.Unmarshal(data, &fields)
	delete(fields, "dp_rank")
	return fields
}

// flatten takes numbers; sections are prefixes.
func flatten(into map[string]float64, prefix string, fields map[string]any) {
	for k, v := range fields {
		switch v := v.(type) {
		case float64:
			into[prefix+k] = v
		case map[string]any:
			if short, ok := sectionPrefixes[k]; ok {
				k = short
			}
			flatten(into, prefix+k+"_", v)
		}
	}
}
