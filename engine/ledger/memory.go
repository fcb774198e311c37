// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package ledger // import "github.com/otelcol-sglang/otelcol-sglang/engine/ledger"

import "time"

// Memory is the KV memory of one scheduler: the pools, the prefix tree and the
// tiers below. The scheduler asks; it never sees pages.
type Memory interface {
	// Match finds the longest cached prefix of the request's tokens, in whole
	// pages, and starts a prefetch from storage where there is one. It changes no
	// book but the order of eviction.
	Match(r *Request, tokens []int32) Prefix
	// Room is what could be allocated at once: available + evictable tokens.
	Room() int
	// Begin locks the prefix (loading back what is on the host) and allocates extra
	// tokens beyond it. False: no room, or the tree no longer has that prefix (match
	// right before), and nothing changed.
	Begin(r *Request, tokens []int32, p Prefix, extra int) (Holding, bool)
	// Extend allocates n more tokens, evicting what must be. False: no room.
	Extend(h Holding, n int) bool
	// Cache hands the first tokens of an unfinished request to the prefix tree (after a
	// prefill chunk), so that others can hit them; the holding keeps them locked.
	Cache(h Holding, tokens []int32)
	// Finish hands all to the tree and lets go.
	Finish(h Holding, tokens []int32)
	// Release lets go without keeping private tokens: retraction, abort.
	Release(h Holding)
	// Reserve promises room for a transfer under way, in whole pages; Unreserve takes
	// back what one Reserve got, with the same number.
	Reserve(tokens int) bool
	Unreserve(tokens int)

	// Books are the pools' books; a pool that the model has not is zero.
	Books() (full, swa, mamba Pool)
	// Host is nil without a host tier.
	Host() *HostPool
	// Took is what the memory cost the scheduler since the last call: evictions, and
	// load-backs that the next step waits for.
	Took() time.Duration
	// Forget drops what a request left behind that never began: its prefetch.
	Forget(r *Request)
	// Flush empties what no request holds.
	Flush()
	// Check is nil while every invariant holds.
	Check() error
}

// Prefix is what [Memory.Match] found: prompt tokens by tier, contiguous from the
// start in this order. Their sum is below the number of tokens, as the last one is
// computed in any case.
type Prefix struct {
	Device, Host, Storage int
	// Ready is false while a prefetch from storage that is worth waiting for runs.
	Ready bool
	// Node is the tree's deepest node of the prefix: requests with one node share it.
	Node any
}

// Total is the prefix's length.
func (p *Prefix) Total() int { return p.Device + p.Host + p.Storage }

// Holding is what one request holds; only the memory looks inside.
type Holding any
