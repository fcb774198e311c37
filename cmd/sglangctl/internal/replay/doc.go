// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package replay sends recorded engine telemetry as the engine's processes
// would: one connection per process, the recorded batches in their order and at
// their pace, with current times and ids of their own.
package replay // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/replay"
