// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package identity // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/identity"

import "sync/atomic"

// Strand is a run of resources that one process sent, whatever its identity
// says: one resource of an export comes from one process, and resources that
// name common parents come from the same one. It is how processes are told apart
// behind a proxy that merges their connections.
type Strand struct {
	proc atomic.Pointer[Proc]
	next atomic.Pointer[Strand]
}

func (s *Strand) find() *Strand {
	for next := s.next.Load(); next != nil; next = s.next.Load() {
		s = next
	}
	return s
}

// Proc returns the strand's process, nil while unknown.
func (s *Strand) Proc() *Proc { return s.find().proc.Load() }

// maxStrandIDs bounds one generation of the table of parents.
const maxStrandIDs = 1 << 17

// strands finds the strand of a parent span; owned by Registry.mu.
type strands struct{ byParent [2]map[uint64]*Strand }

func (t *strands) init() {
	t.byParent = [2]map[uint64]*Strand{{}, {}}
}

func (t *strands) rotate() {
	t.byParent[0], t.byParent[1] = map[uint64]*Strand{}, t.byParent[0]
}

func (t *strands) get(id uint64) *Strand {
	for _, generation := range t.byParent {
		if s := generation[id]; s != nil {
			return s.find()
		}
	}
	return nil
}

func (t *strands) put(id uint64, s *Strand) {
	if len(t.byParent[0]) >= maxStrandIDs {
		t.rotate()
	}
	t.byParent[0][id] = s
}

// Strand returns the strand of a resource whose slices name the parents; proc is
// the process where a thread span of the resource told it, else nil.
func (r *Registry) Strand(parents []uint64, proc *Proc) *Strand {
	r.mu.Lock()
	defer r.mu.Unlock()
	var s *Strand
	for _, id := range parents {
		other := r.strands.get(id)
		switch {
		case other == nil || other == s:
		case s == nil:
			s = other
		default:
			s = unite(s, other)
		}
	}
	if s == nil {
		s = &Strand{}
	}
	for _, id := range parents {
		r.strands.put(id, s)
	}
	if proc != nil {
		s.proc.Store(proc)
	}
	return s
}

// unite joins two strands; what one knew, both know.
func unite(a, b *Strand) *Strand {
	if a.proc.Load() == nil {
		a, b = b, a
	}
	b.next.Store(a)
	return a
}
