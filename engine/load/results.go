// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package load // import "github.com/otelcol-sglang/otelcol-sglang/engine/load"

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"text/tabwriter"
	"time"
)

// maxSamples bounds what is kept of one distribution; beyond it each sample is as
// likely to be kept as any other.
const maxSamples = 1 << 18

// Results is what the clients saw.
type Results struct {
	begun time.Duration
	last  time.Duration

	Requests, Finished, Aborted, Failed int
	PromptTokens, OutputTokens          int
	// FirstError is of the first request that failed.
	FirstError error

	ttft, itl, tpot, e2e sample
}

func newResults(seed uint64) *Results {
	r := &Results{}
	for i, s := range []*sample{&r.ttft, &r.itl, &r.tpot, &r.e2e} {
		s.rng = rand.New(rand.NewPCG(seed, uint64(i)))
	}
	return r
}

func (r *Results) begin(at time.Duration) { r.begun, r.last = at, at }

// watched is one call as its client sees it.
type watched struct {
	*Results
	stream      bool
	samples     int
	sent        time.Duration
	first, last time.Duration
	tokens      int
}

func (r *Results) watch(c *Call, at time.Duration) *watched {
	r.Requests++
	r.PromptTokens += len(c.Prompt)
	return &watched{Results: r, stream: c.Stream, samples: c.N, sent: at}
}

// event books one. TTFT and intervals are those of streams: else a client sees
// nothing before the end. Tokens of several samples come at once, so between them
// there is no interval.
func (w *watched) event(e Event) {
	n := len(e.Tokens)
	w.Results.last = e.At
	if n > 0 && w.stream {
		if w.tokens == 0 {
			w.first = e.At
			w.ttft.add(e.At - w.sent)
		} else if w.samples == 1 {
			for range n {
				w.itl.add((e.At - w.last) / time.Duration(n))
			}
		}
		w.last = e.At
	}
	w.tokens += n
	w.OutputTokens += n
	if e.Done {
		w.end(e)
	}
}

func (w *watched) end(e Event) {
	switch {
	case e.Failed != nil:
		w.Failed++
		if w.FirstError == nil {
			w.FirstError = e.Failed
		}
		return
	case e.Aborted:
		w.Aborted++
		return
	}
	w.Finished++
	w.e2e.add(e.At - w.sent)
	if w.stream && w.samples == 1 && w.tokens > 1 && e.At > w.first {
		w.tpot.add((e.At - w.first) / time.Duration(w.tokens-1))
	}
}

// sample is a reservoir of durations.
type sample struct {
	rng  *rand.Rand
	seen int
	sum  time.Duration
	max  time.Duration
	kept []time.Duration
}

func (s *sample) add(d time.Duration) {
	s.seen++
	s.sum += d
	s.max = max(s.max, d)
	if len(s.kept) < maxSamples {
		s.kept = append(s.kept, d)
		return
	}
	if i := s.rng.IntN(s.seen); i < maxSamples {
		s.kept[i] = d
	}
}

// Quantiles of one distribution, in seconds.
type Quantiles struct {
	Count int     `json:"count"`
	Mean  float64 `json:"mean"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
}

func (s *sample) quantiles() Quantiles {
	if s.seen == 0 {
		return Quantiles{}
	}
	sorted := slices.Clone(s.kept)
	slices.Sort(sorted)
	at := func(q float64) float64 { return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))].Seconds() }
	return Quantiles{
		Count: s.seen, Mean: s.sum.Seconds() / float64(s.seen),
		P50: at(0.5), P90: at(0.9), P99: at(0.99), Max: s.max.Seconds(),
	}
}

// Report is the results, ready to be written. Times are in seconds.
type Report struct {
	Seconds      float64   `json:"seconds"`
	Requests     int       `json:"requests"`
	Finished     int       `json:"finished"`
	Aborted      int       `json:"aborted"`
	Failed       int       `json:"failed"`
	FirstError   string    `json:"first_error,omitempty"`
	PromptTokens int       `json:"prompt_tokens"`
	OutputTokens int       `json:"output_tokens"`
	TTFT         Quantiles `json:"ttft"`
	ITL          Quantiles `json:"itl"`
	TPOT         Quantiles `json:"tpot"`
	E2E          Quantiles `json:"e2e"`
}

// Report sums up. TTFT, ITL and TPOT are of streamed requests, the latter two of
// those with one sample.
func (r *Results) Report() Report {
	out := Report{
		Seconds: (r.last - r.begun).Seconds(), Requests: r.Requests, Finished: r.Finished, Aborted: r.Aborted, Failed: r.Failed,
		PromptTokens: r.PromptTokens, OutputTokens: r.OutputTokens,
		TTFT: r.ttft.quantiles(), ITL: r.itl.quantiles(), TPOT: r.tpot.quantiles(), E2E: r.e2e.quantiles(),
	}
	if r.FirstError != nil {
		out.FirstError = r.FirstError.Error()
	}
	return out
}

// WriteJSON writes one line.
func (r Report) WriteJSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

// WriteTable writes the report for people, in milliseconds.
func (r Report) WriteTable(w io.Writer) error {
	fmt.Fprintf(w, "%d requests in %.1f s: %d finished, %d aborted, %d failed; %d prompt tokens, %d generated (%.0f/s)\n",
		r.Requests, r.Seconds, r.Finished, r.Aborted, r.Failed, r.PromptTokens, r.OutputTokens, float64(r.OutputTokens)/max(r.Seconds, 1e-9))
	if r.FirstError != "" {
		fmt.Fprintf(w, "first failure: %s\n", r.FirstError)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "ms\tcount\tmean\tP50\tP90\tP99\tmax\t")
	for _, row := range []struct {
		name string
		Quantiles
	}{{"TTFT", r.TTFT}, {"ITL", r.ITL}, {"TPOT", r.TPOT}, {"E2E", r.E2E}} {
		fmt.Fprintf(t, "%s\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t\n",
			row.name, row.Count, 1e3*row.Mean, 1e3*row.P50, 1e3*row.P90, 1e3*row.P99, 1e3*row.Max)
	}
	return t.Flush()
}
