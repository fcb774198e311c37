// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package front // import "github.com/otelcol-sglang/otelcol-sglang/engine/front"

import (
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

const (
	// healthPoll is how often a probe's handler looks: a probe takes a second at least.
	healthPoll    = time.Second
	healthTimeout = 20 * time.Second
)

// Health sends a request for one token and calls done with whether anything was
// heard of the schedulers since. A probe that is still under way then is forgotten.
func (f *Front) Health(done func(ok bool)) {
	r := ledger.NewRequest(sglang.HealthCheckPrefix+"_"+f.NewID(), ledger.KindHealth)
	r.Prompt, r.OutputLen, r.MaxTokens = []int32{0}, 1, 1
	since := f.Loop.Now()
	rep := &reply{request: r, quiet: true, client: func(Output) {}}
	f.start(rep)
	f.poll(rep, since, done)
}

func (f *Front) poll(rep *reply, since time.Duration, done func(bool)) {
	f.Loop.After(healthPoll, func() {
		ok := f.heard > since
		if !ok && f.Loop.Now()-since < healthTimeout {
			f.poll(rep, since, done)
			return
		}
		if f.live[rep.request.ID] == rep {
			delete(f.live, rep.request.ID)
			rep.request.Reply = nil
			f.Tracer.Forget(rep.request)
		}
		done(ok)
	})
}
