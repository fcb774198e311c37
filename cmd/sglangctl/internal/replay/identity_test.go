// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"pgregory.net/rapid"
)

func TestIdentityKeepsDifferentIDsDifferent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := identity(rapid.Uint64().Draw(t, "identity"))
		a, b := rapid.Uint64Min(1).Draw(t, "a"), rapid.Uint64Min(1).Draw(t, "b")
		assert.Equal(t, a == b, d.number(a) == d.number(b))
		assert.NotZero(t, d.number(a))
	})
}

func TestTraceID(t *testing.T) {
	d := identity(1)
	for _, tc := range []struct {
		name      string
		id        pcommon.TraceID
		zeroLeads bool
	}{
		{"of the engine", pcommon.TraceID{8: 1, 15: 2}, true},
		{"of a caller", pcommon.TraceID{0: 9, 8: 1, 15: 2}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := d.traceID(tc.id)
			assert.NotEqual(t, tc.id, got)
			assert.Equal(t, tc.zeroLeads, strings.HasPrefix(got.String(), "0000000000000000"))
			assert.NotEqual(t, got, d.derive(1).traceID(tc.id))
		})
	}
	assert.True(t, d.traceID(pcommon.TraceID{}).IsEmpty())
	assert.True(t, d.spanID(pcommon.SpanID{}).IsEmpty())
}

func TestRequestID(t *testing.T) {
	d := identity(7)
	const uuid = "0123456789abcdef0123456789abcdef"
	for _, tc := range []struct {
		name, id, pattern string
	}{
		{"hexadecimal", uuid, `^[0-9a-f]{32}$`},
		{"health probe", "HEALTH_CHECK_" + uuid, `^HEALTH_CHECK_[0-9a-f]{32}$`},
		{"with dashes", "01234567-89ab-cdef-0123-456789abcdef", `^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`},
		{"too short to be unique", "chatcmpl_user_42", `^chatcmpl_user_42-[0-9a-f]{8}$`},
		{"a room", "0x31e167ebecc3f80d", `^0x[0-9a-f]{1,16}$`},
		{"empty", "", `^$`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := d.requestID(tc.id)
			assert.Regexp(t, tc.pattern, got)
			if tc.id != "" {
				assert.NotEqual(t, tc.id, got)
				assert.NotEqual(t, got, d.derive(1).requestID(tc.id), "another repetition")
			}
		})
	}
	assert.Equal(t, "HEALTH_CHECK_"+d.requestID(uuid), d.requestID("HEALTH_CHECK_"+uuid), "rid stays the id's tail")
}

func TestRoom(t *testing.T) {
	d := identity(3)
	assert.Equal(t, "0x0", d.roomText("0x0"), "no pair stays none")
	assert.Equal(t, "None", d.roomText("None"))
	assert.Equal(t, d.roomText("0x1f"), d.roomText("31"), "one room in two spellings")
	assert.NotEqual(t, d.roomText("0x1f"), d.roomText("0x1e"))
	assert.Less(t, d.room(1), uint64(1)<<63)
}
