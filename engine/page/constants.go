// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package page // import "github.com/otelcol-sglang/otelcol-sglang/engine/page"

import (
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// graphPhases are always shown: a phase without graphs has 0.
var graphPhases = []string{sglang.PhaseGraphDecode, sglang.PhaseGraphPrefill}

// Constants implements [ledger.SchedulerCollector].
func (s *scheduler) Constants(c *ledger.Constants) {
	r := s.role
	show := func(name sglang.FamilyName, v float64) { set(r.gauge(name).with(), v) }
	show(sglang.FamilyMaxTotalNumTokens, float64(c.MaxTotalTokens))
	if c.MaxTotalTokensSWA > 0 {
		show(sglang.FamilyMaxTotalNumTokensSWA, float64(c.MaxTotalTokensSWA))
	}
	show(sglang.FamilyWeightMemoryUsageGB, c.WeightGB)
	show(sglang.FamilyKVCacheMemoryUsageGB, c.KVCacheGB)
	graph := r.gauge(sglang.FamilyGraphMemoryUsageGB)
	for _, phase := range graphPhases {
		set(graph.with(phase), c.GraphGB[phase])
	}
	show(sglang.FamilyPageSize, float64(c.PageSize))
	show(sglang.FamilyNumPages, float64(c.Pages))
	show(sglang.FamilyContextLen, float64(c.ContextLen))
	show(sglang.FamilyStartupAvailableGPUMemoryGB, c.AvailableGB)
	s.page.front.started(c)
}
