// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sglangreceiver // import "github.com/otelcol-sglang/otelcol-sglang/receiver/sglangreceiver"

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-sglang/otelcol-sglang/receiver/sglangreceiver/internal/scrape"
)

const (
	// infoWait is how long an engine's scrapes wait for its first /server_info, so
	// that its resource is the same from the start.
	infoWait = 2 * time.Second
	// maxInfoBytes bounds an answer of /server_info.
	maxInfoBytes = 4 << 20
)

func (e *engine) awaitInfo(ctx context.Context) {
	select {
	case <-e.infoDone:
		return
	default:
	}
	timeout := time.NewTimer(infoWait)
	defer timeout.Stop()
	select {
	case <-e.infoDone:
	case <-timeout.C:
	case <-ctx.Done():
	}
}

// askSoon never waits; one open question is enough.
func (e *engine) askSoon() {
	select {
	case e.ask <- struct{}{}:
	default:
	}
}

func (e *engine) askLoop() {
	ticker := time.NewTicker(e.infoEvery)
	defer ticker.Stop()
	first := sync.OnceFunc(func() { close(e.infoDone) })
	for {
		e.askInfo()
		first()
		select {
		case <-e.ctx.Done():
			return
		case <-ticker.C:
		case <-e.ask:
		}
	}
}

func (e *engine) askInfo() {
	info, err := scrape.AskInfo(e.ctx, e.infos, e.cfg.base())
	if e.ctx.Err() != nil {
		return
	}
	if err != nil {
		e.telemetry.ReceiverSglangServerInfoFailures.Add(e.ctx, 1, e.because(string(scrape.ReasonOf(err))))
		e.set.Logger.Debug("no usable /server_info", zap.String(attrEngine, e.id), zap.Error(err))
		return
	}
	e.info.Store(info)
}
