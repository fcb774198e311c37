// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package load // import "github.com/otelcol-sglang/otelcol-sglang/engine/load"

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/engine/vocab"
)

const (
	// maxLine bounds one server-sent event: /generate repeats all tokens in each.
	maxLine = 16 << 20
	// maxError bounds what is read of a refusal.
	maxError = 4 << 10
)

// Remote is an engine behind HTTP. The driver's loop must run in real time.
type Remote struct {
	Loop *clock.Loop
	// URL is the engine's, without a path; Prefill is the other half's of a PD pair, ""
	// otherwise.
	URL, Prefill string
	Model        string
	APIKey       string
	Client       *http.Client
	ctx          context.Context
	begun        time.Time
	running      sync.WaitGroup
}

var _ Target = (*Remote)(nil)

// NewRemote returns a target whose requests end when ctx does.
func NewRemote(ctx context.Context, loop *clock.Loop, url string) *Remote {
	return &Remote{
		Loop: loop, URL: strings.TrimRight(url, "/"), ctx: ctx, begun: loop.Wall(0),
		Client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 512}},
	}
}

// Wait waits until no request is under way.
func (t *Remote) Wait() {
	t.running.Wait()
	t.Client.CloseIdleConnections()
}

// Do implements [Target].
func (t *Remote) Do(c *Call, events func(Event)) (hangUp func()) {
	ctx, cancel := context.WithCancelCause(t.ctx)
	call := *c
	prefilled := make(chan struct{})
	if t.Prefill == "" {
		close(prefilled)
	} else {
		t.running.Go(func() {
			defer close(prefilled)
			if err := t.do(ctx, t.Prefill, &call, func(Event) {}); err != nil {
				cancel(fmt.Errorf("prefill: %w", err)) // nothing would come to the decode engine
			}
		})
	}
	t.running.Go(func() {
		defer cancel(nil)
		post := func(e Event) { t.Loop.Post(func() { events(e) }) }
		err := t.do(ctx, t.URL, &call, post)
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		post(t.end(err))
		if err == nil {
			<-prefilled // it would take its client for one that hung up
		}
	})
	return func() { cancel(nil) }
}

func (t *Remote) end(err error) Event {
	e := Event{At: t.now(), Done: true}
	if errors.Is(err, context.Canceled) || errors.Is(err, errAborted) {
		e.Aborted = true
	} else {
		e.Failed = err
	}
	return e
}

// now is the loop's time, read on any goroutine.
func (t *Remote) now() time.Duration { return time.Since(t.begun) }

// errAborted is an answer that ended with finish reason "abort".
var errAborted = errors.New("aborted")

func (t *Remote) do(ctx context.Context, base string, c *Call, events func(Event)) error {
	resp, err := t.post(ctx, base, c)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxError)) // part of a message is better than none
		return &ErrRefused{Status: resp.StatusCode, Message: string(text)}
	}
	if c.Stream {
		return t.stream(resp.Body, events)
	}
	var answers remoteAnswers
	if err := json.NewDecoder(resp.Body).Decode(&answers); err != nil {
		return err
	}
	var ids []int32
	for i := range answers {
		answers[i].seen = map[int]int{}
		ids = append(ids, answers[i].tokens()...)
		err = cmp.Or(err, answers[i].err())
	}
	events(Event{At: t.now(), Tokens: ids})
	return err
}

func (t *Remote) post(ctx context.Context, base string, c *Call) (*http.Response, error) {
	body, err := json.Marshal(t.body(c))
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+endpoints[c.Kind], bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if t.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+t.APIKey)
	}
	if c.RoutingKey != "" {
		req.Header.Set("X-SMG-Routing-Key", c.RoutingKey)
	}
	return t.Client.Do(req)
}

func (t *Remote) body(c *Call) map[string]any {
	sampling := map[string]any{"temperature": temperature, "sim_output_len": c.Output, "n": c.N}
	body := sampling
	switch c.Kind {
	case ledger.KindEmbedding:
		return map[string]any{"model": t.Model, "input": c.Prompt}
	case ledger.KindGenerate:
		sampling["max_new_tokens"] = c.maxTokens()
		body = map[string]any{"input_ids": c.Prompt, "sampling_params": sampling}
	case ledger.KindChat:
		body["messages"] = []map[string]string{{"role": "user", "content": vocab.Decode(c.Prompt)}}
		body["max_tokens"], body["model"] = c.maxTokens(), t.Model
	default:
		body["prompt"], body["max_tokens"], body["model"] = c.Prompt, c.maxTokens(), t.Model
	}
	body["stream"] = c.Stream
	if c.Priority != nil {
		body["priority"] = *c.Priority
	}
	if c.LoRA != "" {
		body["lora_path"] = c.LoRA
	}
	if c.Room != 0 {
		body["bootstrap_room"] = c.Room
	}
	return body
}

// remoteAnswers are several for /generate with n above 1, else one.
type remoteAnswers []remoteAnswer

// UnmarshalJSON implements [json.Unmarshaler].
func (a *remoteAnswers) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '[' {
		return json.Unmarshal(b, (*[]remoteAnswer)(a))
	}
	*a = make(remoteAnswers, 1)
	return json.Unmarshal(b, &(*a)[0])
}

// remoteAnswer is any endpoint's answer or event.
type remoteAnswer struct {
	Choices []struct {
		Index   int
		Text    string
		Message struct{ Content string }
		Delta   struct{ Content string }
		Reason  string `json:"finish_reason"`
	}
	OutputIDs []int32 `json:"output_ids"`
	Index     int
	Meta      struct {
		Reason *struct{ Type string } `json:"finish_reason"`
	} `json:"meta_info"`
	Error *struct {
		Message string
		Code    int
	}
	// seen counts /generate's tokens by sample: each event repeats those before.
	seen map[int]int
}

func (a *remoteAnswer) tokens() []int32 {
	var ids []int32
	if n := a.seen[a.Index]; len(a.OutputIDs) > n {
		ids = a.OutputIDs[n:]
		a.seen[a.Index] = len(a.OutputIDs)
	}
	for i := range a.Choices {
		c := &a.Choices[i]
		ids = vocab.Append(ids, c.Text+c.Message.Content+c.Delta.Content)
	}
	return ids
}

func (a *remoteAnswer) err() error {
	if a.Error != nil {
		return &ErrRefused{Status: a.Error.Code, Message: a.Error.Message}
	}
	aborted := a.Meta.Reason != nil && a.Meta.Reason.Type == string(ledger.FinishAbort)
	for i := range a.Choices {
		aborted = aborted || a.Choices[i].Reason == string(ledger.FinishAbort)
	}
	if aborted {
		return errAborted
	}
	return nil
}

func (t *Remote) stream(body io.Reader, events func(Event)) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	seen := map[int]int{}
	var ended error
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		if bytes.Equal(data, []byte("[DONE]")) {
			return ended
		}
		a := remoteAnswer{seen: seen}
		if err := json.Unmarshal(data, &a); err != nil {
			return fmt.Errorf("event: %w", err)
		}
		if err := a.err(); err != nil {
			ended = err
		}
		if ids := a.tokens(); len(ids) > 0 {
			events(Event{At: t.now(), Tokens: ids})
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}
