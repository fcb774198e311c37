// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package disagg // import "github.com/otelcol-sglang/otelcol-sglang/engine/disagg"

import (
	"context"
	"errors"

	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
)

// Listen waits on a prefill engine's bootstrap port for its decode engine.
func Listen(ctx context.Context, loop *clock.Loop, addr string) (Link, error) {
	return nil, errors.New("not there yet")
}

// Dial connects a decode engine with its prefill engine, again and again until ctx
// is done.
func Dial(ctx context.Context, loop *clock.Loop, addr string) (Link, error) {
	return nil, errors.New("not there yet")
}
