// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package replay // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/replay"

import (
	"encoding/binary"
	"hash/fnv"
	"strconv"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// identity turns recorded ids into those of one engine or one repetition. Equal
// ids become equal ids and different ones stay different, so parents, links and
// pairs survive; two identities share nothing.
type identity uint64

// derive returns an identity of its own for each n.
func (d identity) derive(n uint64) identity { return identity(mix(uint64(d) ^ mix(n+1))) }

// mix is the finalizer of splitmix64, a bijection of 64 bits.
func mix(v uint64) uint64 {
	v += 0x9e3779b97f4a7c15
	v = (v ^ v>>30) * 0xbf58476d1ce4e5b9
	v = (v ^ v>>27) * 0x94d049bb133111eb
	return v ^ v>>31
}

// number maps numbers other than 0 one to one onto numbers other than 0.
func (d identity) number(v uint64) uint64 {
	for v = mix(v ^ uint64(d)); v == 0; {
		v = mix(v ^ uint64(d))
	}
	return v
}

// spanID leaves the empty id, which stands for "none".
func (d identity) spanID(id pcommon.SpanID) pcommon.SpanID {
	if id.IsEmpty() {
		return id
	}
	binary.BigEndian.PutUint64(id[:], d.number(binary.BigEndian.Uint64(id[:])))
	return id
}

// traceID keeps leading zeros: the engine's own trace ids have 64 bits.
func (d identity) traceID(id pcommon.TraceID) pcommon.TraceID {
	if id.IsEmpty() {
		return id
	}
	high, low := id[:8], id[8:]
	if h := binary.BigEndian.Uint64(high); h != 0 {
		binary.BigEndian.PutUint64(high, d.derive(1).number(h))
	}
	binary.BigEndian.PutUint64(low, d.number(binary.BigEndian.Uint64(low)))
	return id
}

// room keeps 0, which is no pair, and the engine's 63 bits.
func (d identity) room(room uint64) uint64 {
	if room == 0 {
		return 0
	}
	return max(d.number(room)>>1, 1)
}

const roomPrefix = "0x"

// roomText maps a room as root spans spell it.
func (d identity) roomText(text string) string {
	room, err := strconv.ParseUint(text, 0, 64)
	if err != nil || room == 0 {
		return text
	}
	return roomPrefix + strconv.FormatUint(d.room(room), 16)
}

// requestID maps a request id. What stands before the last "_" stays, as the
// engine shows only what follows it as "rid".
func (d identity) requestID(id string) string {
	cut := strings.LastIndexByte(id, '_') + 1
	return id[:cut] + d.rid(id[cut:])
}

// minDigits is the fewest hexadecimal digits that make an id unique by themselves.
const minDigits = 16

func (d identity) rid(rid string) string {
	switch {
	case rid == "":
		return rid
	case strings.HasPrefix(rid, roomPrefix):
		return d.roomText(rid)
	case countHex(rid) < minDigits:
		return rid + "-" + d.digits(rid, "00000000")
	}
	return d.digits(rid, rid)
}

// digits replaces the hexadecimal digits of shape by others that depend on of.
func (d identity) digits(of, shape string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(of))
	stream := d.derive(h.Sum64())
	out := []byte(shape)
	for i, n := 0, 0; i < len(out); i++ {
		if !isHex(out[i]) {
			continue
		}
		out[i] = "0123456789abcdef"[uint64(stream.derive(uint64(n/minDigits)))>>(4*(n%minDigits))&15]
		n++
	}
	return string(out)
}

func countHex(s string) int {
	n := 0
	for i := range len(s) {
		if isHex(s[i]) {
			n++
		}
	}
	return n
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
