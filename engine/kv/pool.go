// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package kv // import "github.com/otelcol-sglang/otelcol-sglang/engine/kv"

import (
	"fmt"

	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
)

// Pool is a device's pages with the part of the book that does not depend on the
// prefix tree.
type Pool struct {
	*Pages
	private  int // pages that running requests hold outside the tree
	parked   int // pages that session slots hold between turns
	reserved []int32
}

// NewPool returns a pool whose pages are all free.
func NewPool(tokens, pageSize int) *Pool { return &Pool{Pages: NewPages(tokens, pageSize)} }

// Take appends n free pages to a request's own.
func (p *Pool) Take(dst []int32, n int) []int32 {
	p.private += n
	return p.Append(dst, n)
}

// Give takes a request's own pages back.
func (p *Pool) Give(pages []int32) {
	p.private -= Count(pages)
	p.Return(pages)
}

// HandOver says that n of the requests' own pages belong to the prefix tree.
func (p *Pool) HandOver(n int) { p.private -= n }

// Park says that n of the requests' own pages belong to a session slot, whose
// request has ended; Unpark that the next turn has them.
func (p *Pool) Park(n int) {
	p.private -= n
	p.parked += n
}

// Unpark is the reverse of Park.
func (p *Pool) Unpark(n int) { p.Park(-n) }

// Parked is the number of pages in session slots.
func (p *Pool) Parked() int { return p.parked }

// Reserve promises n free pages to a transfer.
func (p *Pool) Reserve(n int) { p.reserved = p.Append(p.reserved, n) }

// Unreserve frees n of the promised pages.
func (p *Pool) Unreserve(n int) {
	at := max(0, len(p.reserved)-n)
	p.Return(p.reserved[at:])
	p.reserved = p.reserved[:at]
}

// Book is the pool's book in tokens, with the pages of the prefix tree that can be
// evicted and those that requests lock.
func (p *Pool) Book(evictable, locked int) ledger.Pool {
	return ledger.Pool{
		Capacity:  p.total * p.size,
		Available: len(p.free) * p.size,
		Evictable: evictable * p.size,
		Used:      (locked + p.private) * p.size,
		Reserved:  (len(p.reserved) + p.parked) * p.size,
	}
}

// Audit checks the book's own part: private are all the pages of running requests,
// parked those of session slots, tree those of the tree.
func (p *Pool) Audit(name string, private, parked, tree [][]int32) error {
	a := p.Pages.Audit(name)
	a.Own("reserved", p.reserved)
	if n := ownAll(a, "a request", private); n != p.private {
		return fmt.Errorf("%s: requests hold %d pages, the book says %d", name, n, p.private)
	}
	if n := ownAll(a, "a session", parked); n != p.parked {
		return fmt.Errorf("%s: sessions hold %d pages, the book says %d", name, n, p.parked)
	}
	ownAll(a, "the tree", tree)
	return a.Err()
}

func ownAll(a *Audit, who string, lists [][]int32) int {
	n := 0
	for _, l := range lists {
		a.Own(who, l)
		n += Count(l)
	}
	return n
}
