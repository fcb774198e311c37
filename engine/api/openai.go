// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package api // import "github.com/otelcol-sglang/otelcol-sglang/engine/api"

import (
	"encoding/json"
	"hash/fnv"
	"net/http"
	"strings"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/engine/vocab"
)

// endOfTurnID is the token at which a model of the Llama 3 family stops.
const endOfTurnID = 128009

type usage struct {
	PromptTokens     int            `json:"prompt_tokens"`
	TotalTokens      int            `json:"total_tokens"`
	CompletionTokens int            `json:"completion_tokens"`
	PromptDetails    *promptDetails `json:"prompt_tokens_details"`
	ReasoningTokens  int            `json:"reasoning_tokens"`
}

type promptDetails struct {
	CachedTokens int `json:"cached_tokens"`
}

// usageOf adds up samples: the prompt counts once per n of them.
func usageOf(parts []part, n int) *usage {
	u := &usage{}
	for i := range parts {
		u.CompletionTokens += parts[i].total
		if parts[i].index%n == 0 {
			u.PromptTokens += parts[i].prompt
		}
	}
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	return u
}

// matched is what OpenAI's answers say about a stop.
func (p *part) matched() *int {
	if p.finish != ledger.FinishStop {
		return nil
	}
	id := endOfTurnID
	return &id
}

func (p *part) reason() *string {
	if !p.done {
		return nil
	}
	s := string(p.finish)
	return &s
}

type chatMessage struct {
	Role             string  `json:"role"`
	Content          string  `json:"content"`
	ReasoningContent *string `json:"reasoning_content"`
	ToolCalls        *string `json:"tool_calls"`
}

type chatDelta struct {
	ReasoningContent *string `json:"reasoning_content"`
	Role             string  `json:"role,omitempty"`
	Content          *string `json:"content,omitempty"`
}

type choice struct {
	Index        int          `json:"index"`
	Message      *chatMessage `json:"message,omitempty"`
	Delta        *chatDelta   `json:"delta,omitempty"`
	Text         *string      `json:"text,omitempty"`
	Logprobs     *struct{}    `json:"logprobs"`
	FinishReason *string      `json:"finish_reason"`
	MatchedStop  *int         `json:"matched_stop"`
}

type completion struct {
	ID      string    `json:"id"`
	Object  string    `json:"object"`
	Created int64     `json:"created"`
	Model   string    `json:"model"`
	Choices []choice  `json:"choices"`
	Usage   *usage    `json:"usage,omitempty"`
	Meta    *metadata `json:"metadata,omitempty"`
}

type metadata struct {
	WeightVersion string `json:"weight_version"`
}

const weightVersion = "default"

// answer is what the two completion endpoints differ in.
type answer interface {
	object(chunk bool) string
	choice(p *part, text string) choice
	// chunks are a part's choices in a stream; first is of that sample.
	chunks(p *part, text string, first bool) []choice
	// last are the choices of the chunks after all, given each sample's last part.
	last(parts []part) []choice
}

type chatAnswer struct{}

func (chatAnswer) object(chunk bool) string {
	if chunk {
		return "chat.completion.chunk"
	}
	return "chat.completion"
}

func (chatAnswer) choice(p *part, text string) choice {
	return choice{
		Index: p.index, Message: &chatMessage{Role: "assistant", Content: text}, FinishReason: p.reason(), MatchedStop: p.matched(),
	}
}

func (chatAnswer) chunks(p *part, text string, first bool) []choice {
	var out []choice
	if first {
		empty := ""
		out = append(out, choice{Index: p.index, Delta: &chatDelta{Role: "assistant", Content: &empty}})
	}
	if text != "" {
		out = append(out, choice{Index: p.index, Delta: &chatDelta{Content: &text}})
	}
	return out
}

func (chatAnswer) last(parts []part) []choice {
	out := make([]choice, 0, len(parts))
	for i := range parts {
		p := &parts[i]
		out = append(out, choice{Index: p.index, Delta: &chatDelta{}, FinishReason: p.reason(), MatchedStop: p.matched()})
	}
	return out
}

type textAnswer struct{}

func (textAnswer) object(bool) string { return "text_completion" }

func (textAnswer) choice(p *part, text string) choice {
	return choice{Index: p.index, Text: &text, FinishReason: p.reason(), MatchedStop: p.matched()}
}

func (a textAnswer) chunks(p *part, text string, _ bool) []choice { return []choice{a.choice(p, text)} }

func (textAnswer) last([]part) []choice { return nil }

func (s *Service) chat(w http.ResponseWriter, r *http.Request) {
	var b openAIBody
	if !decode(w, r, &b) {
		return
	}
	ids, err := chatTokens(b.Messages)
	if err != nil {
		refuse(w, err.Error())
		return
	}
	limit := b.MaxCompletionTokens
	if limit == nil {
		limit = b.MaxTokens
	}
	s.complete(w, r, &b, chatAnswer{}, ledger.KindChat, [][]int32{ids}, limit, s.Args.ContextLength-len(ids))
}

func (s *Service) completions(w http.ResponseWriter, r *http.Request) {
	var b openAIBody
	if !decode(w, r, &b) {
		return
	}
	prompts, err := promptTokens(b.Prompt)
	if err != nil {
		refuse(w, err.Error())
		return
	}
	s.complete(w, r, &b, textAnswer{}, ledger.KindCompletion, prompts, b.MaxTokens, defaultMaxTokens)
}

// complete answers both endpoints.
func (s *Service) complete(w http.ResponseWriter, r *http.Request, b *openAIBody, a answer, kind ledger.Kind, prompts [][]int32, limit *int, standard int) {
	b.adapter(s.Args.ServedModelName)
	var requests []*ledger.Request
	for i, ids := range prompts {
		q, err := s.request(r, kind, ids, &b.sampling, b.of(i), limit, standard)
		if err != nil {
			refuse(w, err.Error())
			return
		}
		q.Stream = b.Stream
		q.Structured = q.Structured || b.ResponseFormat != nil && strings.HasPrefix(b.ResponseFormat.Type, "json")
		requests = append(requests, q)
	}
	p, err := s.submit(r.Context(), requests...)
	if err != nil {
		refuse(w, err.Error())
		return
	}
	frame := completion{Created: time.Now().Unix(), Model: b.model(s.Args.ServedModelName), Object: a.object(b.Stream)}
	n := requests[0].N
	if b.Stream {
		stream(w, r, p, a, frame, b.StreamOptions, n)
		return
	}
	whole(w, r, p, a, frame, n)
}

// adapter takes a LoRA adapter out of a model's name, as "base:adapter".
func (b *openAIBody) adapter(served string) {
	if name, ok := strings.CutPrefix(b.Model, served+":"); ok && b.LoRAPath == "" {
		b.LoRAPath = name
	}
}

func (b *openAIBody) model(served string) string {
	if b.Model == "" {
		return served
	}
	return b.Model
}

func whole(w http.ResponseWriter, r *http.Request, p *pipe, a answer, frame completion, n int) {
	parts, err := p.collect(r.Context())
	if err != nil {
		return
	}
	if parts[0].refuse(w) {
		return
	}
	frame.ID, frame.Usage, frame.Meta = parts[0].id, usageOf(parts, n), &metadata{WeightVersion: weightVersion}
	for i := range parts {
		frame.Choices = append(frame.Choices, a.choice(&parts[i], vocab.Decode(parts[i].tokens)))
	}
	writeJSON(w, http.StatusOK, frame)
}

// streamed is the state of one streamed answer.
type streamed struct {
	events
	answer
	frame      completion
	continuous bool
	// last is each sample's last part.
	last  map[int]part
	begun bool
}

// stream sends the header with the first chunk, as the engine does so that it can
// still refuse.
func stream(w http.ResponseWriter, r *http.Request, p *pipe, a answer, frame completion, o *streamOptions, n int) {
	st := &streamed{answer: a, frame: frame, continuous: o.continuous(), last: map[int]part{}}
	for {
		parts, err := p.next(r.Context())
		if err != nil {
			return
		}
		if !st.begun {
			st.events, st.begun = startEvents(w), true
		}
		if len(parts) == 0 {
			break
		}
		for i := range parts {
			if !st.part(&parts[i]) {
				st.done()
				return
			}
		}
		st.flush()
	}
	st.end(o.usage(), n)
}

// part sends one output; false if it was an error.
func (st *streamed) part(p *part) bool {
	_, known := st.last[p.index]
	st.last[p.index] = *p
	if p.failed() {
		st.json(map[string]any{"error": openAIError(p.abortStatus, errorName(p.abortStatus), p.abortMessage)})
		return false
	}
	for _, c := range st.chunks(p, vocab.Decode(p.tokens), !known) {
		st.chunk(p.id, c, p)
	}
	return true
}

// errorName is Python's HTTPStatus.name: SERVICE_UNAVAILABLE.
func errorName(status int) string {
	return strings.ReplaceAll(strings.ToUpper(http.StatusText(status)), " ", "_")
}

func (st *streamed) chunk(id string, c choice, p *part) {
	f := st.frame
	f.ID, f.Choices = id, []choice{c}
	if st.continuous && p != nil {
		f.Usage = usageOf([]part{{total: p.total, prompt: p.prompt}}, 1)
	}
	st.json(f)
}

func (st *streamed) json(v any) {
	data, err := json.Marshal(v)
	if err == nil { // plain structs always marshal
		st.send(data)
	}
}

func (st *streamed) end(withUsage bool, n int) {
	parts := make([]part, 0, len(st.last))
	for i := 0; len(parts) < len(st.last); i++ {
		if p, ok := st.last[i]; ok {
			parts = append(parts, p)
		}
	}
	var id string
	for i, c := range st.answer.last(parts) {
		st.chunk(parts[i].id, c, nil)
	}
	if len(parts) > 0 {
		id = parts[0].id
	}
	if withUsage {
		f := st.frame
		f.ID, f.Choices, f.Usage = id, []choice{}, usageOf(parts, n)
		st.json(f)
	}
	st.done()
}

type embeddingBody struct {
	routing
	Model string          `json:"model"`
	Input json.RawMessage `json:"input"`
	// Dimensions of the vectors; a model's own where absent.
	Dimensions     *int   `json:"dimensions"`
	EncodingFormat string `json:"encoding_format"`
}

const dimensions = 64

func (s *Service) embeddings(w http.ResponseWriter, r *http.Request) {
	var b embeddingBody
	if !decode(w, r, &b) {
		return
	}
	inputs, err := promptTokens(b.Input)
	if err != nil {
		refuse(w, "Input cannot be empty")
		return
	}
	var requests []*ledger.Request
	for i, ids := range inputs {
		q, err := s.request(r, ledger.KindEmbedding, ids, &sampling{}, b.of(i), nil, 0)
		if err != nil {
			refuse(w, err.Error())
			return
		}
		requests = append(requests, q)
	}
	p, err := s.submit(r.Context(), requests...)
	if err != nil {
		refuse(w, err.Error())
		return
	}
	parts, err := p.collect(r.Context())
	if err != nil {
		return
	}
	if parts[0].refuse(w) {
		return
	}
	writeJSON(w, http.StatusOK, b.answer(s.Args.ServedModelName, parts, inputs))
}

type embedding struct {
	Object    string `json:"object"`
	Index     int    `json:"index"`
	Embedding any    `json:"embedding"`
}

func (b *embeddingBody) answer(served string, parts []part, inputs [][]int32) any {
	size := dimensions
	if b.Dimensions != nil && *b.Dimensions > 0 {
		size = min(*b.Dimensions, 1<<14)
	}
	data := make([]embedding, len(parts))
	for i := range parts {
		data[i] = embedding{Object: "embedding", Index: i, Embedding: encodeVector(vector(inputs[i], size), b.EncodingFormat)}
	}
	model := b.Model
	if model == "" {
		model = served
	}
	u := usageOf(parts, 1)
	return map[string]any{"object": "list", "data": data, "model": model, "usage": u}
}

// vector is made of the ids alone: the same text has the same one.
func vector(ids []int32, size int) []float32 {
	v := make([]float32, size)
	h := fnv.New32a()
	for _, id := range ids {
		_, _ = h.Write([]byte{byte(id), byte(id >> 8), byte(id >> 16)})
		v[int(h.Sum32()%uint32(size))] += 1 / float32(len(ids))
	}
	return v
}
