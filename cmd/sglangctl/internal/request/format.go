// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package request // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/request"

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Duration writes a duration with the unit that suits it.
func Duration(d time.Duration) string {
	abs := max(d, -d)
	switch {
	case abs == 0:
		return "0"
	case abs < time.Millisecond:
		return fmt.Sprintf("%.0f µs", float64(d)/float64(time.Microsecond))
	case abs < 100*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	case abs < time.Second:
		return fmt.Sprintf("%.0f ms", float64(d)/float64(time.Millisecond))
	case abs < 10*time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// seconds turns an attribute's value into a duration.
func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Count groups digits by three.
func Count(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(' ')
		}
		b.WriteRune(d)
	}
	return sign + b.String()
}

// plural writes a number of things.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return Count(int64(n)) + " " + thing + "s"
}

// padLeft and padRight count characters, not bytes.
func padLeft(s string, width int) string {
	return strings.Repeat(" ", max(width-utf8.RuneCountInString(s), 0)) + s
}

func padRight(s string, width int) string {
	return s + strings.Repeat(" ", max(width-utf8.RuneCountInString(s), 0))
}

// bar draws what part of a whole lies between from and to, both 0 to 1; what
// is not nothing takes at least one cell.
func bar(from, to float64, width int) string {
	from, to = min(max(from, 0), 1), min(max(to, 0), 1)
	first := min(int(from*float64(width)), width-1)
	last := min(max(int(to*float64(width)+0.5), first+1), width)
	return strings.Repeat(" ", first) + strings.Repeat("█", last-first) + strings.Repeat(" ", width-last)
}
