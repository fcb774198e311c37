// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package kv is the paged memory of a device or host: pages that are handed out
// and come back, and the book of a pool,
//
//	capacity = available + evictable + used + reserved.
//
// A pool knows what is free, reserved and private to requests; what the prefix tree
// owns, locked or evictable, the tree says.
package kv // import "github.com/otelcol-sglang/otelcol-sglang/engine/kv"

import "fmt"

// Pages hands out the pages of one pool. Ids start at 1: page 0 takes what the
// padding of a batch writes and is never handed out, nor part of the capacity.
type Pages struct {
	size  int // tokens per page
	total int
	free  []int32 // a stack
}

// NewPages returns the pages that fit into so many tokens.
func NewPages(tokens, pageSize int) *Pages {
	p := &Pages{size: pageSize, total: tokens / pageSize}
	p.free = make([]int32, p.total)
	for i := range p.free {
		p.free[i] = int32(p.total - i)
	}
	return p
}

// Size is tokens per page.
func (p *Pages) Size() int { return p.size }

// Total is the number of pages in all, without the padding page.
func (p *Pages) Total() int { return p.total }

// Free is the number of pages that can be handed out.
func (p *Pages) Free() int { return len(p.free) }

// Round is the number of pages that hold so many tokens.
func (p *Pages) Round(tokens int) int { return (tokens + p.size - 1) / p.size }

// Append moves n free pages to dst. The caller has seen that there are as many.
func (p *Pages) Append(dst []int32, n int) []int32 {
	at := len(p.free) - n
	dst = append(dst, p.free[at:]...)
	p.free = p.free[:at]
	return dst
}

// Return takes pages back; [Hole] is skipped.
func (p *Pages) Return(pages []int32) {
	for _, id := range pages {
		if id != Hole {
			p.free = append(p.free, id)
		}
	}
}

// Hole stands for a page that was given back before its neighbours, as a sliding
// window leaves them behind.
const Hole = 0

// Count is the number of pages that are no holes.
func Count(pages []int32) int {
	n := 0
	for _, id := range pages {
		if id != Hole {
			n++
		}
	}
	return n
}

// Audit finds pages that are in two places, or in none.
type Audit struct {
	name  string
	owner []string
	err   error
}

// Audit starts with the free pages.
func (p *Pages) Audit(name string) *Audit {
	a := &Audit{name: name, owner: make([]string, p.total+1)}
	a.owner[Hole] = "padding"
	a.Own("free", p.free)
	return a
}

// Own says who has the pages.
func (a *Audit) Own(who string, pages []int32) {
	for _, id := range pages {
		switch {
		case id == Hole:
		case id < 0 || int(id) >= len(a.owner):
			a.fail(fmt.Errorf("%s: page %d of %s does not exist", a.name, id, who))
		case a.owner[id] != "":
			a.fail(fmt.Errorf("%s: page %d is in %s and in %s", a.name, id, a.owner[id], who))
		default:
			a.owner[id] = who
		}
	}
}

// Err is the first mistake, once every owner has spoken.
func (a *Audit) Err() error {
	for id, who := range a.owner {
		if who == "" {
			a.fail(fmt.Errorf("%s: page %d is lost", a.name, id))
		}
	}
	return a.err
}

func (a *Audit) fail(err error) {
	if a.err == nil {
		a.err = err
	}
}
