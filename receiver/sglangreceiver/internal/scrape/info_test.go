// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package scrape

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
)

const serverInfo = `{"model_path":"/models/secret-place","served_model_name":"llama","api_key":"sk-secret","admin_api_key":"sk-admin",
"launch_command":"sglang serve --api-key sk-secret","tp_size":4,"dp_size":2,"pp_size":1,"ep_size":1,"enable_dp_attention":true,
"disaggregation_mode":"prefill","internal_states":[{"a":1}],"version":"0.5.23"}`

func TestParseInfo(t *testing.T) {
	tests := []struct {
		name, body string
		want       map[string]any
	}{
		{"all", serverInfo, map[string]any{
			"sglang.version": "0.5.23", "sglang.model": "llama", "sglang.tp_size": int64(4), "sglang.dp_size": int64(2),
			"sglang.pp_size": int64(1), "sglang.ep_size": int64(1), "sglang.dp_attention": true, "sglang.disaggregation_mode": "prefill",
		}},
		{
			"unified", `{"disaggregation_mode":"null","enable_dp_attention":false}`,
			map[string]any{"sglang.disaggregation_mode": "unified", "sglang.dp_attention": false},
		},
		{"absent is not zero", `{"tp_size":null,"served_model_name":null,"version":"1"}`, map[string]any{"sglang.version": "1"}},
		{"odd types are left out", `{"tp_size":"4","dp_size":0,"pp_size":-1,"ep_size":1.5,"version":7,"enable_dp_attention":"yes","served_model_name":"m"}`, map[string]any{"sglang.model": "m"}},
		{"an unknown mode is left out", `{"disaggregation_mode":"--api-key x","version":"1"}`, map[string]any{"sglang.version": "1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			info, err := ParseInfo([]byte(tt.body))
			require.NoError(t, err)
			attrs := pcommon.NewMap()
			info.Put(attrs)
			assert.Equal(t, tt.want, attrs.AsRaw())
		})
	}
	for _, bad := range []string{``, `[]`, `"x"`, `{}`, `{"api_key":"x"}`, `<html>`, `{"tp_size":`} {
		info, err := ParseInfo([]byte(bad))
		require.Error(t, err, bad)
		assert.Equal(t, ReasonParse, ReasonOf(err))
		assert.Nil(t, info)
	}
	var none *Info
	attrs := pcommon.NewMap()
	none.Put(attrs)
	assert.Zero(t, attrs.Len())
}

func TestAskInfo(t *testing.T) {
	tests := []struct {
		name   string
		serve  map[string]int // path to status
		reason Reason         // empty: an answer
	}{
		{"this release's path", map[string]int{"/server_info": 200}, ""},
		{"the older path", map[string]int{"/get_server_info": 200}, ""},
		{"neither", nil, ReasonStatus},
		{"broken engine", map[string]int{"/server_info": 500, "/get_server_info": 200}, ReasonStatus},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				status, ok := tt.serve[r.URL.Path]
				if !ok {
					status = http.StatusNotFound
				}
				w.WriteHeader(status)
				_, _ = w.Write([]byte(serverInfo))
			}))
			defer server.Close()
			f := NewFetcher(server.Client(), AcceptJSON, 1<<20)
			info, err := AskInfo(t.Context(), f, server.URL)
			if tt.reason == "" {
				require.NoError(t, err)
				assert.NotNil(t, info)
				return
			}
			assert.Equal(t, tt.reason, ReasonOf(err))
		})
	}
}

// FuzzParseInfo: only allow-listed attributes leave, whatever the answer is.
func FuzzParseInfo(f *testing.F) {
	f.Add([]byte(serverInfo))
	f.Add([]byte(`{"disaggregation_mode":"null"}`))
	f.Add([]byte(`<html>`))
	allowed := map[string]bool{}
	for _, fields := range []map[string]string{textFields, sizeFields, flagFields, {modeField: "sglang.disaggregation_mode"}} {
		for _, attr := range fields {
			allowed[attr] = true
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		info, err := ParseInfo(body)
		if err != nil {
			return
		}
		attrs := pcommon.NewMap()
		info.Put(attrs)
		require.NotZero(t, attrs.Len())
		for k, v := range attrs.All() {
			require.True(t, allowed[k], k)
			require.LessOrEqual(t, len(v.AsString()), maxInfoText)
		}
	})
}
