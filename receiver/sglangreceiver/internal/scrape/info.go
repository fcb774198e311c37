// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package scrape // import "github.com/otelcol-sglang/otelcol-sglang/receiver/sglangreceiver/internal/scrape"

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

const (
	// maxInfoText bounds one attribute's text.
	maxInfoText = 256
	// maxRanks bounds a parallel size that is believed.
	maxRanks = 1 << 16
)

// infoPaths are the path and the one that it replaced.
var infoPaths = [...]string{"/server_info", "/get_server_info"}

// Info is what an engine says of itself: resource attributes, allow-listed.
type Info struct {
	texts []field[string]
	sizes []field[int64]
	flags []field[bool]
}

type field[T any] struct {
	attr  string
	value T
}

// The answer holds every argument of the server, among them its api keys and its
// whole command line. Only these leave.
var (
	textFields = map[string]string{
		"version":           sglang.AttrServerVersion,
		"served_model_name": sglang.AttrServerModel,
	}
	sizeFields = map[string]string{
		"tp_size": sglang.AttrServerTPSize,
		"dp_size": sglang.AttrServerDPSize,
		"pp_size": sglang.AttrServerPPSize,
		"ep_size": sglang.AttrServerEPSize,
	}
	flagFields = map[string]string{
		"enable_dp_attention": sglang.AttrServerDPAttn,
	}
	// modes gives the attribute's value; "null" is the engine's word for none.
	modeField = "disaggregation_mode"
	modes     = map[string]string{"null": "unified", "prefill": "prefill", "decode": "decode"}
)

// AskInfo asks an engine for its /server_info, then for the path of older
// releases. The base is its URL without a path at the end.
func AskInfo(ctx context.Context, f *Fetcher, base string) (*Info, error) {
	var err error
	for _, path := range infoPaths {
		var a Answer
		a, err = f.Get(ctx, base+path)
		if err == nil {
			return ParseInfo(a.Body)
		}
		var failed *Error
		if !errors.As(err, &failed) || failed.Status != http.StatusNotFound {
			break
		}
	}
	return nil, err
}

// ParseInfo reads an answer. A field of another type than expected is left out;
// an answer with none of the fields is an error.
func ParseInfo(body []byte) (*Info, error) {
	var answer map[string]json.RawMessage
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, &Error{Reason: ReasonParse, Err: fmt.Errorf("not a JSON object: %.100s", err.Error())}
	}
	info := &Info{
		texts: pick(answer, textFields, func(s string) bool { return s != "" && len(s) <= maxInfoText }),
		sizes: pick(answer, sizeFields, func(n int64) bool { return n > 0 && n <= maxRanks }),
		flags: pick(answer, flagFields, func(bool) bool { return true }),
	}
	for _, m := range pick(answer, map[string]string{modeField: sglang.AttrServerDisaggMode}, func(string) bool { return true }) {
		if mode, ok := modes[strings.ToLower(m.value)]; ok {
			info.texts = append(info.texts, field[string]{m.attr, mode})
		}
	}
	if len(info.texts)+len(info.sizes)+len(info.flags) == 0 {
		return nil, &Error{Reason: ReasonParse, Err: errors.New("no known field in the answer")}
	}
	return info, nil
}

func pick[T any](answer map[string]json.RawMessage, fields map[string]string, ok func(T) bool) []field[T] {
	var out []field[T]
	for key, attr := range fields {
		raw, found := answer[key]
		// JSON null would leave the zero value: absent is not zero.
		if !found || string(raw) == "null" {
			continue
		}
		var v T
		if json.Unmarshal(raw, &v) == nil && ok(v) {
			out = append(out, field[T]{attr, v})
		}
	}
	return out
}

// Put writes the attributes. A nil Info writes none.
func (i *Info) Put(attrs pcommon.Map) {
	if i == nil {
		return
	}
	for _, f := range i.texts {
		attrs.PutStr(f.attr, f.value)
	}
	for _, f := range i.sizes {
		attrs.PutInt(f.attr, f.value)
	}
	for _, f := range i.flags {
		attrs.PutBool(f.attr, f.value)
	}
}
