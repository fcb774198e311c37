// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package api // import "github.com/otelcol-sglang/otelcol-sglang/engine/api"

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

func (s *Service) page(w http.ResponseWriter, r *http.Request) {
	if fault := s.pageFault.Load(); fault != nil && (*fault)(w, r) {
		return
	}
	if wait := time.Duration(s.pageWait.Load()); wait > 0 {
		select {
		case <-time.After(wait):
		case <-r.Context().Done():
			return
		}
	}
	// What the middleware posted before this is on the page.
	if s.do(r.Context(), s.Settle) {
		s.Metrics.ServeHTTP(w, r)
	}
}

// health answers empty, after a second at least.
func (s *Service) health(w http.ResponseWriter, r *http.Request) {
	if s.closing.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	answer := make(chan bool, 1)
	s.Loop.Post(func() { s.Front().Health(func(ok bool) { answer <- ok }) })
	select {
	case ok := <-answer:
		if ok {
			w.WriteHeader(http.StatusOK)
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	case <-r.Context().Done():
	}
}

func (s *Service) ready(w http.ResponseWriter, _ *http.Request) {
	if s.closing.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

type modelCard struct {
	ID          string  `json:"id"`
	Object      string  `json:"object"`
	Created     int64   `json:"created"`
	OwnedBy     string  `json:"owned_by"`
	Root        string  `json:"root"`
	Parent      *string `json:"parent"`
	MaxModelLen int     `json:"max_model_len"`
}

func (s *Service) card() modelCard {
	name := s.Args.ServedModelName
	return modelCard{
		ID: name, Object: "model", Created: time.Now().Unix(), OwnedBy: "sglang", Root: name, MaxModelLen: s.Args.ContextLength,
	}
}

func (s *Service) models(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": []modelCard{s.card()}})
}

func (s *Service) model(w http.ResponseWriter, r *http.Request) {
	if name := r.PathValue("model"); name != s.Args.ServedModelName {
		writeJSON(w, http.StatusNotFound, map[string]any{"error": map[string]any{
			"message": "The model '" + name + "' does not exist", "type": "invalid_request_error", "param": "model", "code": "model_not_found",
		}})
		return
	}
	writeJSON(w, http.StatusOK, s.card())
}

func (s *Service) modelInfo(w http.ResponseWriter, _ *http.Request) {
	a := s.Args
	writeJSON(w, http.StatusOK, map[string]any{
		"model_path": a.ModelPath, "served_model_name": a.ServedModelName, "tokenizer_path": a.ModelPath,
		"is_generation": true, "preferred_sampling_params": nil, "weight_version": weightVersion,
		"load_format": "dummy", "reasoning_parser": nil, "tool_call_parser": nil,
		"disaggregation_mode": a.DisaggregationMode, "has_image_understanding": false, "has_audio_understanding": false,
		"model_type": "llama", "architectures": []string{"LlamaForCausalLM"},
	})
}

// serverInfo is the settings, flat, and what goes with them.
func (s *Service) serverInfo(w http.ResponseWriter, r *http.Request) {
	info := s.settings()
	ok := s.do(r.Context(), func() {
		for k, v := range s.Info() {
			info[k] = v
		}
	})
	if ok {
		writeJSON(w, http.StatusOK, info)
	}
}

func (s *Service) settings() map[string]any {
	a := s.Args
	return map[string]any{
		"model_path": a.ModelPath, "tokenizer_path": a.ModelPath, "served_model_name": a.ServedModelName,
		"host": a.Host, "port": a.Port, "context_length": a.ContextLength,
		"tp_size": a.TPSize, "dp_size": a.DPSize, "pp_size": a.PPSize, "ep_size": a.EPSize,
		"enable_dp_attention": a.EnableDPAttention, "load_balance_method": a.LoadBalanceMethod,
		"disaggregation_mode": a.DisaggregationMode, "disaggregation_bootstrap_port": a.DisaggregationBootstrapPort,
		"max_running_requests": a.MaxRunningRequests, "max_queued_requests": orNil(a.MaxQueuedRequests),
		"mem_fraction_static": a.MemFractionStatic, "page_size": a.PageSize, "max_total_tokens": orNil(a.MaxTotalTokens),
		"swa_full_tokens_ratio": a.SWAFullTokensRatio, "mamba_full_memory_ratio": a.MambaFullMemoryRatio,
		"max_mamba_cache_size": orNil(a.MaxMambaCacheSize),
		"enable_mixed_chunk":   a.EnableMixedChunk, "chunked_prefill_size": a.ChunkedPrefillSize, "max_prefill_tokens": a.MaxPrefillTokens,
		"schedule_policy": a.SchedulePolicy, "schedule_conservativeness": a.ScheduleConservativeness,
		"enable_priority_scheduling": a.EnablePriorityScheduling, "disable_radix_cache": a.DisableRadixCache,
		"disable_overlap_schedule": a.DisableOverlapSchedule, "decode_log_interval": a.DecodeLogInterval,
		"stream_interval": a.StreamInterval, "speculative_algorithm": orNil(a.SpeculativeAlgorithm),
		"speculative_num_steps": a.SpeculativeNumSteps, "speculative_eagle_topk": a.SpeculativeEagleTopK,
		"speculative_num_draft_tokens": a.SpeculativeNumDraftTokens, "enable_hierarchical_cache": a.EnableHierarchicalCache,
		"hicache_ratio": a.HiCacheRatio, "hicache_write_policy": a.HiCacheWritePolicy,
		"hicache_storage_backend": orNil(a.HiCacheStorageBackend), "max_loras_per_batch": a.MaxLoRAsPerBatch,
		"enable_metrics": a.EnableMetrics, "enable_metrics_for_all_schedulers": a.EnableMetricsForAllSchedulers,
		"extra_metric_labels": a.ExtraMetricLabels, "enable_trace": a.EnableTrace,
		"enable_mfu_metrics": a.EnableMFUMetrics, "enable_expert_distribution_metrics": a.EnableExpertDistributionMetrics,
		"enable_eplb": a.EnableEPLB, "enable_lora": a.EnableLoRA, "enable_streaming_session": a.EnableStreamingSession,
		"trace_modules": strings.Join(a.TraceModules, ","), "tokenizer_worker_num": a.TokenizerWorkerNum,
		"otlp_traces_endpoint": a.OTLPTracesEndpoint, "random_seed": a.Seed,
		"launch_command": s.LaunchCommand, "status": "ready", "max_req_input_len": a.ContextLength - 6,
		"kv_events": nil, "startup_time": s.started.Unix(), "internal_states": []any{},
		"version": Version, "frontend": "python",
	}
}

// orNil is Python's None for what was not set.
func orNil[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}

func (s *Service) setTraceLevel(w http.ResponseWriter, r *http.Request) {
	level, err := strconv.Atoi(r.URL.Query().Get("level"))
	if err != nil || level < 0 {
		refuse(w, "1 validation error:\n  {'type': 'int_parsing', 'loc': ('query', 'level'), 'msg': 'Input should be an integer of at least 0'}")
		return
	}
	if s.do(r.Context(), func() { s.SetTraceLevel(level) }) {
		writeText(w, http.StatusOK, "success")
	}
}

func (s *Service) flushCache(w http.ResponseWriter, r *http.Request) {
	var flushed bool
	if !s.do(r.Context(), func() { flushed = s.Flush() }) {
		return
	}
	if !flushed {
		writeText(w, http.StatusBadRequest, "Flush cache failed.\n")
		return
	}
	writeText(w, http.StatusOK, "Cache flushed.\nPlease check backend logs for more details. "+
		"(When there are running or waiting requests, the operation will not be performed.)\n")
}

func (s *Service) abortRequest(w http.ResponseWriter, r *http.Request) {
	var b struct {
		RID      string `json:"rid"`
		AbortAll bool   `json:"abort_all"`
	}
	if !decode(w, r, &b) {
		return
	}
	done := s.do(r.Context(), func() {
		if b.AbortAll {
			s.Front().AbortAll()
			return
		}
		s.Front().Abort(b.RID)
	})
	if done {
		w.WriteHeader(http.StatusOK)
	}
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // the client may be gone
}
