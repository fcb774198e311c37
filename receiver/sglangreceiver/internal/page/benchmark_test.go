// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	capturesDir = "../../../../testdata/captures/metrics"
	contentText = "text/plain; version=0.0.4; charset=utf-8"
)

// bigPage is a captured page, repeated with another label value until it has at
// least the given number of lines.
func bigPage(tb testing.TB, lines int) []byte {
	tb.Helper()
	one, err := os.ReadFile(filepath.Join(capturesDir, "metrics-tp4-all-schedulers.t2.prom"))
	require.NoError(tb, err)
	var out bytes.Buffer
	for i, n := 0, 0; n < lines; i++ {
		model := fmt.Appendf(nil, `model_name="lora-%d"`, i)
		part := bytes.ReplaceAll(one, []byte(`model_name="meta-llama/Llama-3.1-8B-Instruct"`), model)
		out.Write(part)
		n += bytes.Count(part, []byte("\n"))
	}
	return out.Bytes()
}

func BenchmarkParse(b *testing.B) {
	for _, lines := range []int{2_000, 20_000, 100_000} {
		body := bigPage(b, lines)
		b.Run(fmt.Sprintf("lines=%d", lines), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(body, contentText, Options{DropSentinels: true}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
