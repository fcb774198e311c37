// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestTry(t *testing.T) {
	dir := os.Getenv("OUT")
	for i, s := range Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(dir, s.Name+".om")
			if _, err := os.Stat(file); err == nil {
				t.Skip()
			}
			began := time.Now()
			r := Play(t, s)
			t.Log(time.Since(began), len(r.Series()), r.Steps)
			f, err := os.Create(file + ".tmp")
			if err != nil {
				t.Fatal(err)
			}
			if err := r.WriteOpenMetrics(f, time.Date(2030, 1, 1+i, 0, 0, 0, 0, time.UTC)); err != nil {
				t.Fatal(err)
			}
			f.Close()
			os.Rename(file+".tmp", file)
		})
	}
}
