// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package page // import "github.com/otelcol-sglang/otelcol-sglang/engine/page"

import "github.com/otelcol-sglang/otelcol-sglang/internal/sglang"

// Label is one label. Its value may be empty, which is not the same as no label.
type Label struct{ Name, Value string }

// Series says what a backend makes an instrument for.
type Series struct {
	Family *sglang.Family
	// Labels are sorted by name, without pid. They are shared; don't change them.
	Labels []Label
	// Bounds are a histogram's upper bounds, ascending, without +Inf.
	Bounds []float64
	// PID is the process that writes it.
	PID int
}

// Counter goes up only. All instruments may be used from several goroutines.
type Counter interface{ Add(v float64) }

// Gauge shows what was set last; Add is for those that processes share out.
type Gauge interface {
	Set(v float64)
	Add(v float64)
}

// Histogram takes n observations of v at once. It is a summary's, too.
type Histogram interface{ Observe(v float64, n uint64) }

// Backend makes instruments. Asked twice for the same series it gives what
// counts into the same number, as a registry over several processes does.
type Backend interface {
	Counter(s Series) Counter
	Gauge(s Series) Gauge
	Histogram(s Series) Histogram
}
