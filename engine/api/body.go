// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package api // import "github.com/otelcol-sglang/otelcol-sglang/engine/api"

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"

	"github.com/otelcol-sglang/otelcol-sglang/engine/front"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/engine/vocab"
)

const (
	// defaultMaxTokens is that of /generate and /v1/completions; a chat may fill the context.
	defaultMaxTokens = 128
	maxSamples       = 128
)

// sampling is what the endpoints have in common.
type sampling struct {
	Temperature *number `json:"temperature"`
	TopP        *number `json:"top_p"`
	TopK        *int    `json:"top_k"`
	N           *int    `json:"n"`
	IgnoreEOS   bool    `json:"ignore_eos"`
	JSONSchema  any     `json:"json_schema"`
	Regex       any     `json:"regex"`
	EBNF        any     `json:"ebnf"`
	// SimOutputLen is the simulator's own: where the "model" stops.
	SimOutputLen *int `json:"sim_output_len"`
}

// number is a JSON number that remembers whether it was written as an integer.
type number struct {
	value   float64
	integer bool
}

// UnmarshalJSON implements [json.Unmarshaler].
func (n *number) UnmarshalJSON(b []byte) error {
	n.integer = !strings.ContainsAny(string(b), ".eE")
	return json.Unmarshal(b, &n.value)
}

// into is nil for nil.
func (n *number) into(v **float64, integer *bool) {
	if n != nil {
		*v, *integer = &n.value, n.integer
	}
}

// routing is what a router or the client says about the request itself.
type routing struct {
	RID           string            `json:"rid"`
	Priority      *int              `json:"priority"`
	LoRAPath      string            `json:"lora_path"`
	BootstrapRoom *uint64           `json:"bootstrap_room"`
	BootstrapHost string            `json:"bootstrap_host"`
	SessionParams *session          `json:"session_params"`
	CustomLabels  map[string]string `json:"custom_labels"`
}

type session struct {
	ID string `json:"id"`
}

// openAIBody is the body of the completion endpoints.
type openAIBody struct {
	sampling
	routing
	Model               string          `json:"model"`
	Messages            []message       `json:"messages"`
	Prompt              json.RawMessage `json:"prompt"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	Stream              bool            `json:"stream"`
	StreamOptions       *streamOptions  `json:"stream_options"`
	ResponseFormat      *struct {
		Type string `json:"type"`
	} `json:"response_format"`
}

type streamOptions struct {
	IncludeUsage    bool `json:"include_usage"`
	ContinuousUsage bool `json:"continuous_usage_stats"`
}

func (o *streamOptions) usage() bool      { return o != nil && o.IncludeUsage }
func (o *streamOptions) continuous() bool { return o != nil && o.ContinuousUsage }

type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// text is a message's content: a string, parts, or nothing. Parts that are no text
// count as what names them.
func (m *message) text() (string, error) {
	if len(m.Content) == 0 || string(m.Content) == "null" {
		return "", nil
	}
	var s string
	if json.Unmarshal(m.Content, &s) == nil {
		return s, nil
	}
	var parts []struct {
		Type string          `json:"type"`
		Text string          `json:"text"`
		URL  json.RawMessage `json:"image_url"`
	}
	if err := json.Unmarshal(m.Content, &parts); err != nil {
		return "", errors.New("content must be a string or a list of parts")
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
		b.Write(p.URL)
	}
	return b.String(), nil
}

func chatTokens(messages []message) ([]int32, error) {
	if len(messages) == 0 {
		return nil, errors.New("Messages cannot be empty.") //nolint:staticcheck,revive // the engine's words
	}
	ids := []int32{vocab.BeginOfText}
	for i := range messages {
		m := &messages[i]
		if m.Role == "" {
			return nil, fmt.Errorf("messages[%d].role: Field required", i)
		}
		text, err := m.text()
		if err != nil {
			return nil, fmt.Errorf("messages[%d].%w", i, err)
		}
		ids = vocab.Chat(ids, m.Role, text)
	}
	return vocab.ChatPrompt(ids), nil
}

// promptTokens are those of a string or of a list of ids; lists of either are
// several prompts.
func promptTokens(raw json.RawMessage) ([][]int32, error) {
	var text string
	if isText(raw) && json.Unmarshal(raw, &text) == nil {
		return [][]int32{textTokens(text)}, nil
	}
	var ids []int32
	if json.Unmarshal(raw, &ids) == nil && len(ids) > 0 {
		return [][]int32{ids}, nil
	}
	var many []json.RawMessage
	if json.Unmarshal(raw, &many) != nil || len(many) == 0 {
		return nil, errors.New("Prompt cannot be empty") //nolint:staticcheck // the engine's words
	}
	var out [][]int32
	for _, m := range many {
		if len(m) > 0 && m[0] == '[' {
			var nested []int32
			if json.Unmarshal(m, &nested) != nil || len(nested) == 0 {
				return nil, errors.New("input_ids should be lists of token ids")
			}
			out = append(out, nested)
			continue
		}
		if !isText(m) || json.Unmarshal(m, &text) != nil {
			return nil, errors.New("prompt must be a string, a list of token ids, or a list of those")
		}
		out = append(out, textTokens(text))
	}
	return out, nil
}

// isText is false for null, which unmarshals into anything.
func isText(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '"' }

func textTokens(text string) []int32 { return vocab.Append([]int32{vocab.BeginOfText}, text) }

// request makes the engine's request; maxTokens is the limit that the client gave,
// nil for none, and standard what then holds.
func (s *Service) request(r *http.Request, kind ledger.Kind, prompt []int32, sm *sampling, rt *routing, maxTokens *int, standard int) (*ledger.Request, error) {
	q := ledger.NewRequest(rt.RID, kind)
	q.Prompt = prompt
	if err := sm.into(q); err != nil {
		return nil, err
	}
	if maxTokens != nil && *maxTokens < 0 {
		return nil, fmt.Errorf("max_new_tokens must be at least 0, got %d.", *maxTokens) //nolint:staticcheck,revive // the engine's words
	}
	q.MaxTokens = standard
	if maxTokens != nil {
		q.MaxTokens = *maxTokens
	}
	if kind != ledger.KindEmbedding {
		q.OutputLen = sm.outputLen(q, s.Args.Seed)
	}
	rt.into(q)
	s.headers(r, q)
	return q, front.Check(s.Args, q)
}

func (sm *sampling) into(q *ledger.Request) error {
	sm.Temperature.into(&q.Temperature, &q.IntegerTemperature)
	sm.TopP.into(&q.TopP, &q.IntegerTopP)
	q.Structured = sm.JSONSchema != nil || sm.Regex != nil || sm.EBNF != nil
	if sm.TopK != nil {
		q.TopK = *sm.TopK
	}
	if sm.N != nil {
		q.N = *sm.N
	}
	switch {
	case q.N < 1 || q.N > maxSamples:
		return fmt.Errorf("n must be between 1 and %d, got %d.", maxSamples, q.N) //nolint:staticcheck,revive // the engine's words
	case q.Temperature != nil && *q.Temperature < 0:
		return fmt.Errorf("temperature must be non-negative, got %v.", *q.Temperature) //nolint:staticcheck,revive // the engine's words
	case q.TopP != nil && (*q.TopP <= 0 || *q.TopP > 1):
		return fmt.Errorf("top_p must be in (0, 1], got %v.", *q.TopP) //nolint:staticcheck,revive // the engine's words
	case sm.SimOutputLen != nil && *sm.SimOutputLen < 1:
		return fmt.Errorf("sim_output_len must be at least 1, got %d", *sm.SimOutputLen)
	}
	return nil
}

// outputLen is where the "model" stops: where the client says, at the limit if the
// end is ignored, else after a length that the prompt alone decides.
func (sm *sampling) outputLen(q *ledger.Request, seed uint64) int {
	limit := max(1, q.MaxTokens)
	switch {
	case sm.SimOutputLen != nil:
		return min(*sm.SimOutputLen, limit)
	case sm.IgnoreEOS:
		return limit
	}
	const median, spread = 120, 0.8
	rng := rand.New(rand.NewPCG(seed, hashOf(q.Prompt)))
	return min(limit, 1+int(median*math.Exp(spread*rng.NormFloat64())))
}

func hashOf(ids []int32) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211 // FNV-1a
	h := uint64(offset)
	for _, id := range ids {
		h = (h ^ uint64(uint32(id))) * prime
	}
	return h
}

// of is that of one of several prompts, which cannot share an id.
func (rt *routing) of(prompt int) *routing {
	own := *rt
	if prompt > 0 {
		own.RID = ""
	}
	return &own
}

func (rt *routing) into(q *ledger.Request) {
	q.Priority, q.LoRA = rt.Priority, rt.LoRAPath
	if rt.BootstrapRoom != nil {
		q.BootstrapRoom = *rt.BootstrapRoom
	}
	if rt.SessionParams != nil {
		q.Session = rt.SessionParams.ID
	}
	q.CustomLabels = rt.CustomLabels
}

// headerCustomLabels is --tokenizer-metrics-custom-labels-header's default.
const headerCustomLabels = "x-custom-labels"

func (s *Service) headers(r *http.Request, q *ledger.Request) {
	q.TraceParent = r.Header.Get("traceparent")
	q.RoutingKey = r.Header.Get(headerRoutingKey)
	var labels map[string]string
	if json.Unmarshal([]byte(r.Header.Get(headerCustomLabels)), &labels) == nil {
		q.CustomLabels = labels
	}
	q.CustomLabels = s.allowedLabels(q.CustomLabels)
}

func (s *Service) allowedLabels(labels map[string]string) map[string]string {
	var kept map[string]string
	for _, name := range s.Args.TokenizerMetricsAllowedCustomLabels {
		if v, ok := labels[name]; ok {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[name] = v
		}
	}
	return kept
}
