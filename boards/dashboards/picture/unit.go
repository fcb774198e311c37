// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package picture // import "github.com/otelcol-sglang/otelcol-sglang/boards/dashboards/picture"

import (
	"fmt"
	"math"
	"strings"

	"github.com/otelcol-sglang/otelcol-sglang/boards/dashboards"
)

// prefix of a size, as Grafana puts before a unit.
type prefix struct {
	from float64
	name string
}

var (
	decimal = []prefix{{1e9, "Bil"}, {1e6, "Mil"}, {1e3, "K"}, {0, ""}}
	times   = []prefix{{3600, " h"}, {60, " min"}, {1, " s"}, {1e-3, " ms"}, {1e-6, " µs"}, {1e-9, " ns"}, {0, " s"}}
	binary  = []prefix{{1 << 30, " GiB"}, {1 << 20, " MiB"}, {1 << 10, " KiB"}, {0, " B"}}
)

// show is a value as Grafana writes it.
func show(v float64, unit dashboards.Unit) string {
	suffix, ok := strings.CutPrefix(string(unit), "suffix:")
	switch {
	case ok:
		return digits(v) + suffix
	case unit == dashboards.Seconds:
		return scaled(v, times)
	case unit == dashboards.Millis:
		return scaled(v/1e3, times)
	case unit == dashboards.Bytes:
		return scaled(v, binary)
	case unit == dashboards.MiB:
		return scaled(v*(1<<20), binary)
	case unit == dashboards.Percent:
		return digits(v*100) + "%"
	case unit == dashboards.Percent100:
		return digits(v) + "%"
	case unit == dashboards.PerSecond:
		return scaled(v, decimal) + " req/s"
	case unit == dashboards.Rate:
		return scaled(v, decimal) + " c/s"
	}
	return scaled(v, decimal)
}

func scaled(v float64, all []prefix) string {
	for _, p := range all {
		if math.Abs(v) >= p.from {
			return digits(v/max(p.from, minimum(p))) + p.name
		}
	}
	return digits(v)
}

// minimum divides values of the last prefix by 1.
func minimum(p prefix) float64 {
	if p.from == 0 {
		return 1
	}
	return 0
}

// digits are three that matter.
func digits(v float64) string {
	a := math.Abs(v)
	switch {
	case a < 0.0005:
		return "0"
	case a >= 100 || a == math.Trunc(a):
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 0.1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3g", v)
}
