// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package api // import "github.com/otelcol-sglang/otelcol-sglang/engine/api"

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/page"
)

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

// keep takes away the sections that were not asked for.
func keep(l *page.Load, sections []string) {
	if sections == nil {
		return
	}
	drop := func(name string) bool { return !slices.Contains(sections, name) }
	if drop("memory") {
		l.Memory = nil
	}
	if drop("spec") {
		l.Spec = nil
	}
	if drop("lora") {
		l.LoRA = nil
	}
	if drop("disagg") {
		l.Disagg = nil
	}
	if drop("queues") {
		l.Queues = nil
	}
}

// accelerator is what all profiles run on.
const accelerator = "NVIDIA H100 80GB HBM3"

func (s *Service) loads(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	q := r.URL.Query()
	sections, err := parseSections(q.Get("include"))
	rank, rankErr := strconv.Atoi(q.Get("dp_rank"))
	if err == nil && q.Has("dp_rank") && rankErr != nil {
		err = fmt.Errorf("dp_rank must be an integer (got %q)", q.Get("dp_rank"))
	}
	if err != nil {
		writeJSON(w, http.StatusBadRequest, openAIError(http.StatusBadRequest, "400", err.Error()))
		return
	}
	var loads []page.Load
	if !s.do(r.Context(), func() { loads = s.Loads() }) {
		return
	}
	if q.Has("dp_rank") {
		loads = slices.DeleteFunc(loads, func(l page.Load) bool { return l.DPRank != rank })
	}
	for i := range loads {
		keep(&loads[i], sections)
	}
	s.Loop.Post(func() { s.Book.LoadsQueried(time.Since(start)) })
	if q.Get("format") == "prometheus" {
		w.Header().Set("Content-Type", page.LoadsContentType)
		_ = page.WriteLoads(w, loads) // the client may be gone
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"timestamp": time.Now().UTC().Format("2006-01-02T15:04:05.000000+00:00"), "version": Version,
		"accelerator": accelerator, "num_accelerators": s.Args.AttentionTPSize() * s.Args.PPSize, "loads": loads,
	})
}
