// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sched // import "github.com/otelcol-sglang/otelcol-sglang/engine/sched"

import (
	"cmp"
	"slices"
)

// lpmLimit: a longer queue is served first come, first served, since matching is dear.
const lpmLimit = 128

// order sorts the waiting queue by the policy; priorities come before it.
func (s *Scheduler) order() {
	policy := s.Args.SchedulePolicy
	if policy == policyLPM && len(s.queue) > lpmLimit {
		policy = policyFCFS
	}
	switch policy {
	case policyLPM:
		s.matchAll()
		s.deferShared()
		s.sortQueue(comparePromise)
	case policyDFS:
		s.matchAll()
		s.orderDFS()
	case policyLOF:
		s.sortQueue(func(a, b *work) int { return b.maxTokens - a.maxTokens })
	case policyRandom:
		s.rng.Shuffle(len(s.queue), func(i, j int) { s.queue[i], s.queue[j] = s.queue[j], s.queue[i] })
		s.sortQueue(nil)
	default:
		s.sortQueue(nil)
	}
}

// sortQueue keeps the order of equals; nil compares priorities alone. Under fcfs
// those of one priority go by arrival.
func (s *Scheduler) sortQueue(by func(a, b *work) int) {
	priority := s.Args.EnablePriorityScheduling
	if by == nil && !priority {
		return
	}
	if by == nil && s.Args.SchedulePolicy == policyFCFS {
		slices.SortStableFunc(s.queue, comesAfter)
		return
	}
	slices.SortStableFunc(s.queue, func(a, b *work) int {
		if c := cmp.Compare(a.priority, b.priority); c != 0 || by == nil {
			return c
		}
		return by(a, b)
	})
}

// comparePromise: the longest match goes first, who had better wait last.
func comparePromise(a, b *work) int {
	if a.deferred != b.deferred {
		if a.deferred {
			return 1
		}
		return -1
	}
	return b.prefix.Device - a.prefix.Device
}

// inBatchPrefix is IN_BATCH_PREFIX_CACHING_{CHECK,DEPRIORITIZE}_THRESHOLD: matches up
// to it are worth little, and so many tokens in common with another are worth waiting
// for.
const inBatchPrefix = 32

// beginning is how a prompt begins in the KV of an adapter.
type beginning struct {
	adapter string
	ids     [inBatchPrefix]int32
}

// deferShared lets one of those who begin alike, and of whom the cache knows little,
// go first: the others then find its KV.
func (s *Scheduler) deferShared() {
	seen := map[beginning]bool{}
	for _, w := range s.queue {
		w.deferred = false
		if w.prefix.Device > inBatchPrefix || len(w.ids) < inBatchPrefix {
			continue
		}
		b := beginning{w.r.LoRA, [inBatchPrefix]int32(w.ids)}
		w.deferred = seen[b]
		seen[b] = true
	}
}

func (s *Scheduler) matchAll() {
	for _, w := range s.queue {
		w.prefix = s.Memory.Match(w.r, w.ids)
	}
}

// orderDFS walks the tree of the waiting requests' cached prefixes depth first, the
// branch with the most requests first, so that those who share KV run together.
func (s *Scheduler) orderDFS() {
	out := make([]*work, 0, len(s.queue))
	slices.SortStableFunc(s.queue, comparePrefix)
	s.queue = appendDFS(out, s.queue, 0)
	s.sortQueue(nil)
}

func comparePrefix(a, b *work) int {
	return slices.Compare(a.ids[:a.prefix.Device], b.ids[:b.prefix.Device])
}

// appendDFS takes requests, sorted by prefix, that share their first depth tokens:
// first its branches by weight, then those whose prefix ends here.
func appendDFS(out, group []*work, depth int) []*work {
	if len(group) == 0 {
		return out
	}
	first, last := group[0], group[len(group)-1]
	for depth < first.prefix.Device && depth < last.prefix.Device && first.ids[depth] == last.ids[depth] {
		depth++ // sorted: what the ends share, all share
	}
	here := 0
	for here < len(group) && group[here].prefix.Device == depth {
		here++
	}
	var branches [][]*work
	for rest := group[here:]; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].ids[depth] == rest[0].ids[depth] {
			n++
		}
		branches = append(branches, rest[:n])
		rest = rest[n:]
	}
	slices.SortStableFunc(branches, func(a, b []*work) int { return len(b) - len(a) })
	for _, b := range branches {
		out = appendDFS(out, b, depth+1)
	}
	return append(out, group[:here]...)
}
