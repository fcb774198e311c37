// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package api // import "github.com/otelcol-sglang/otelcol-sglang/engine/api"

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"net/http"

	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/engine/vocab"
)

// generateBody is /generate's.
type generateBody struct {
	routing
	Text           json.RawMessage `json:"text"`
	InputIDs       json.RawMessage `json:"input_ids"`
	SamplingParams struct {
		sampling
		MaxNewTokens *int `json:"max_new_tokens"`
	} `json:"sampling_params"`
	Stream bool `json:"stream"`
}

func (b *generateBody) prompts() ([][]int32, bool, error) {
	raw := b.Text
	if len(raw) == 0 || string(raw) == "null" {
		raw = b.InputIDs
	}
	ids, err := promptTokens(raw)
	// One prompt in a list is answered by a list.
	var text string
	var flat []int32
	single := json.Unmarshal(raw, &text) == nil || json.Unmarshal(raw, &flat) == nil
	return ids, single, err
}

func (s *Service) generate(w http.ResponseWriter, r *http.Request) {
	var b generateBody
	if !decode(w, r, &b) {
		return
	}
	prompts, single, err := b.prompts()
	if err != nil {
		nativeError(w, http.StatusBadRequest, "Either text, input_ids or input_embeds should be provided.")
		return
	}
	var requests []*ledger.Request
	for i, ids := range prompts {
		q, err := s.request(r, ledger.KindGenerate, ids, &b.SamplingParams.sampling, b.of(i), b.SamplingParams.MaxNewTokens, defaultMaxTokens)
		if err != nil {
			nativeError(w, http.StatusBadRequest, err.Error())
			return
		}
		q.Stream = b.Stream
		requests = append(requests, q)
	}
	p, err := s.submit(r.Context(), requests...)
	if err != nil {
		nativeError(w, http.StatusBadRequest, err.Error())
		return
	}
	single = single && requests[0].N == 1
	if b.Stream {
		s.streamGenerated(w, r, p, single)
		return
	}
	s.generated(w, r, p, single)
}

type generated struct {
	Text      string   `json:"text"`
	OutputIDs []int32  `json:"output_ids"`
	Meta      metaInfo `json:"meta_info"`
	Index     *int     `json:"index,omitempty"`
}

type metaInfo struct {
	ID               string         `json:"id"`
	FinishReason     map[string]any `json:"finish_reason"`
	PromptTokens     int            `json:"prompt_tokens"`
	WeightVersion    string         `json:"weight_version"`
	NumRetractions   int            `json:"num_retractions"`
	CompletionTokens int            `json:"completion_tokens"`
	CachedTokens     int            `json:"cached_tokens"`
	E2ELatency       *float64       `json:"e2e_latency,omitempty"`
	QueueTime        *float64       `json:"queue_time,omitempty"`
	SpecVerifyCt     *int           `json:"spec_verify_ct,omitempty"`
}

func (s *Service) meta(p *part) metaInfo {
	m := metaInfo{
		ID: p.id, FinishReason: p.finishReason(), PromptTokens: p.prompt, WeightVersion: weightVersion,
		NumRetractions: p.retractions, CompletionTokens: p.total, CachedTokens: p.cached,
	}
	if !p.done {
		return m
	}
	e2e := p.e2e.Seconds()
	m.E2ELatency = &e2e
	if s.Args.EnableMetrics {
		queued := p.queued.Seconds()
		m.QueueTime = &queued
	}
	if s.Args.Speculative() {
		m.SpecVerifyCt = &p.verifyCalls
	}
	return m
}

// finishReason is the engine's object; nil while the request runs.
func (p *part) finishReason() map[string]any {
	switch {
	case !p.done:
		return nil
	case p.finish == ledger.FinishLength:
		return map[string]any{"type": p.finish, "length": p.total}
	case p.finish == ledger.FinishStop:
		return map[string]any{"type": p.finish, "matched": endOfTurnID}
	}
	reason := map[string]any{"type": p.finish, "message": p.abortMessage}
	if p.abortStatus != 0 {
		reason["status_code"] = p.abortStatus
	}
	return reason
}

func (s *Service) generated(w http.ResponseWriter, r *http.Request, p *pipe, single bool) {
	parts, err := p.collect(r.Context())
	if err != nil {
		return
	}
	if p := &parts[0]; p.failed() && p.abortStatus == http.StatusBadRequest {
		nativeError(w, p.abortStatus, p.abortMessage)
		return
	}
	if parts[0].refuse(w) {
		return
	}
	out := make([]generated, len(parts))
	for i := range parts {
		out[i] = generated{Text: vocab.Decode(parts[i].tokens), OutputIDs: parts[i].tokens, Meta: s.meta(&parts[i])}
	}
	if single {
		writeJSON(w, http.StatusOK, out[0])
		return
	}
	writeJSON(w, http.StatusOK, out)
}

// streamGenerated sends all that there is so far in each event, as the engine does
// by default.
func (s *Service) streamGenerated(w http.ResponseWriter, r *http.Request, p *pipe, single bool) {
	ev := startEvents(w)
	ev.flush()
	texts, ids := map[int]string{}, map[int][]int32{}
	for {
		parts, err := p.next(r.Context())
		if err != nil {
			return
		}
		if len(parts) == 0 {
			break
		}
		for i := range parts {
			x := &parts[i]
			texts[x.index] += vocab.Decode(x.tokens)
			ids[x.index] = append(ids[x.index], x.tokens...)
			g := generated{Text: texts[x.index], OutputIDs: ids[x.index], Meta: s.meta(x)}
			if !single {
				g.Index = &x.index
			}
			if data, err := json.Marshal(g); err == nil {
				ev.send(data)
			}
		}
		ev.flush()
	}
	ev.done()
}

// encodeVector is a list, or base64 of little-endian floats, as the OpenAI client
// asks for by itself.
func encodeVector(v []float32, format string) any {
	if format != "base64" {
		return v
	}
	raw := make([]byte, 0, 4*len(v))
	for _, x := range v {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(raw)
}
