// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package front // import "github.com/otelcol-sglang/otelcol-sglang/engine/front"

import "github.com/otelcol-sglang/otelcol-sglang/engine/ledger"

// Door books HTTP requests, those of real clients and of built-in ones. It belongs
// to the loop's goroutine.
type Door struct {
	book ledger.HTTPCollector
	// keys counts active requests by routing key.
	keys map[string]int
}

// NewDoor returns a door that nobody has passed.
func NewDoor(book ledger.HTTPCollector) *Door { return &Door{book: book, keys: map[string]int{}} }

// Visit is one HTTP request. It is active until the answer begins, as in the engine,
// whose middleware does not see the body.
type Visit struct {
	door                  *Door
	endpoint, method, key string
	over                  bool
}

// Open books a request; endpoint is the route's template, key the routing key or "".
func (d *Door) Open(endpoint, method, key string) *Visit {
	d.book.Request(endpoint, method)
	d.book.Active(endpoint, method, 1)
	if key != "" {
		d.keys[key]++
		d.book.RoutingKeys(len(d.keys))
	}
	return &Visit{door: d, endpoint: endpoint, method: method, key: key}
}

// Answered books that the answer begins, once.
func (v *Visit) Answered(status int) {
	if v.over {
		return
	}
	v.door.book.Response(v.endpoint, v.method, status)
	v.Gone()
}

// Gone books the end of a request that was not answered, since its client is gone.
func (v *Visit) Gone() {
	if v.over {
		return
	}
	v.over = true
	d := v.door
	d.book.Active(v.endpoint, v.method, -1)
	if v.key == "" {
		return
	}
	if d.keys[v.key]--; d.keys[v.key] == 0 {
		delete(d.keys, v.key)
	}
	d.book.RoutingKeys(len(d.keys))
}
