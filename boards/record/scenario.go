// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package record // import "github.com/otelcol-sglang/otelcol-sglang/boards/record"

import (
	"strings"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
)

// Scenario is some time of an engine, or of a PD pair, with a collector beside it.
type Scenario struct {
	Name, About string
	// Settings changes SGLang's defaults and those of this package.
	Settings func(a *args.Args)
	// Load is what clients do, as in sglang-sim's --load.
	Load string
	// Faults are sglang-sim's, and those of the collector's surroundings below. Each
	// begins at FaultAt unless it says when.
	Faults []string
	// FaultAt is 0 where nothing goes wrong.
	FaultAt time.Duration
	// Length is how long it plays.
	Length time.Duration
	// PD: the engine is a prefill and a decode engine; engine faults befall the first.
	PD bool
}

// What may befall the collector's surroundings, which the simulator does not know:
const (
	// FaultNoSpans: the engine's spans don't reach the collector any more.
	FaultNoSpans = "no-spans"
	// FaultNoCollector: nothing answers where Prometheus scrapes.
	FaultNoCollector = "no-collector"
	// FaultNoBackend: what is behind the collector takes no spans any more.
	FaultNoBackend = "no-backend"
)

func surroundings(fault string) bool {
	return fault == FaultNoSpans || fault == FaultNoCollector || fault == FaultNoBackend
}

// engineFaults are the faults with their time.
func (s *Scenario) engineFaults() (out []string) {
	for _, f := range s.Faults {
		if surroundings(f) {
			continue
		}
		if !strings.Contains(f, "after=") {
			sep := ":"
			if strings.Contains(f, ":") {
				sep = ","
			}
			f += sep + "after=" + s.FaultAt.String()
		}
		out = append(out, f)
	}
	return out
}

// begins is when one of the surroundings' faults does; never if it is not there.
func (s *Scenario) begins(fault string) time.Duration {
	for _, f := range s.Faults {
		if f == fault {
			return s.FaultAt
		}
	}
	return s.Length + 1
}

// settings of an engine: telemetry is on, at the lowest trace level that has every
// value.
func (s *Scenario) settings() args.Args {
	a := args.Default()
	a.EnableMetrics, a.EnableTrace, a.TraceLevel, a.TPSize = true, true, 2, 2
	if s.Settings != nil {
		s.Settings(&a)
	}
	return a
}
