// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package page // import "github.com/otelcol-sglang/otelcol-sglang/receiver/sglangreceiver/internal/page"

import (
	"math"
	"strconv"

	"github.com/cespare/xxhash/v2"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

const (
	// labelSep cannot be in UTF-8 text.
	labelSep = 0xff
	// arenaLabels is how many labels are allocated at once.
	arenaLabels = 1024
)

// identify puts the sample's labels into b.labels, without the name, empty ones,
// skip, and the accidental pid, which it returns (0 if there is none).
func (b *builder) identify(f *family, lset labels.Labels, skip string) (key, pid uint64) {
	b.labels = b.labels[:0]
	b.buf = append(append(b.buf[:0], byte(f.Kind)), f.Name...)
	dropPID := f.known != nil && f.known.HasPID()
	lset.Range(func(l labels.Label) {
		switch {
		case l.Value == "" || l.Name == model.MetricNameLabel || l.Name == skip:
		case dropPID && l.Name == sglang.LabelPID:
			pid, _ = strconv.ParseUint(l.Value, 10, 64)
		default:
			b.labels = append(b.labels, Label{l.Name, l.Value})
			b.buf = append(append(b.buf, labelSep), l.Name...)
			b.buf = append(append(b.buf, labelSep), l.Value...)
		}
	})
	return xxhash.Sum64(b.buf), pid
}

// keepLabels copies b.labels out of the scratch space.
func (b *builder) keepLabels() []Label {
	if cap(b.arena)-len(b.arena) < len(b.labels) {
		b.arena = make([]Label, 0, max(arenaLabels, len(b.labels)))
	}
	from := len(b.arena)
	b.arena = append(b.arena, b.labels...)
	return b.arena[from:len(b.arena):len(b.arena)]
}

func (b *builder) scalar(f *family, lset labels.Labels, v float64) {
	if r, refuse := b.judge(f, v); refuse {
		b.refused[r]++
		return
	}
	key, pid := b.identify(f, lset, "")
	if i, dup := b.seen[key]; dup {
		b.again(f, key, pid, i, v)
		return
	}
	b.seen[key] = len(f.Series)
	if pid != 0 {
		b.pids[key] = pid
	}
	f.Series = append(f.Series, Series{Key: key, Labels: b.keepLabels(), Value: v})
}

// again decides between two series of one identity. Of processes that wrote the
// same one the youngest lives, which by all likelihood has the highest pid: the
// engine keeps dead processes' series on the page. Else the first one stays.
func (b *builder) again(f *family, key, pid uint64, i int, v float64) {
	if pid == b.pids[key] {
		b.refused[RefusedDuplicate]++
		return
	}
	b.refused[RefusedDeadProcess]++
	if pid > b.pids[key] {
		b.pids[key] = pid
		f.Series[i].Value = v
	}
}

func (b *builder) judge(f *family, v float64) (Reason, bool) {
	if f.Kind == Counter {
		bad := math.IsNaN(v) || math.IsInf(v, 0) || v < 0
		return RefusedValue, bad
	}
	if !b.opts.DropSentinels || !f.engine() {
		return "", false
	}
	sentinel := math.IsNaN(v) || (f.known != nil && f.known.IsSentinel(v))
	return RefusedSentinel, sentinel
}
