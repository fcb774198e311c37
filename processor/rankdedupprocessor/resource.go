// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package rankdedupprocessor // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor"

import (
	"crypto/sha256"
	"encoding/hex"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/fold"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/identity"
)

// Attributes of the semantic conventions that tell processes apart.
const (
	attrInstanceID = "service.instance.id"
	attrHostID     = "host.id"
	attrHostName   = "host.name"
	attrPID        = "process.pid"
)

// maxKey bounds each text that is remembered of a sender, in bytes.
const maxKey = 256

// bounded returns the text, or a digest of one that is too long.
func bounded(text string) string {
	if len(text) <= maxKey {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// keyOf reads what a resource says about its sender.
func keyOf(attrs pcommon.Map) identity.Key {
	key := identity.Key{Ranks: sglang.NoRanks}
	var hostID, hostName, pid string
	for name, v := range attrs.All() {
		switch name {
		case attrInstanceID:
			key.Instance = v.Str()
		case attrHostID:
			hostID = v.Str()
		case attrHostName:
			hostName = v.Str()
		case attrPID:
			pid = v.AsString()
		case sglang.AttrExporterPeer:
			key.Peer = v.Str()
		case sglang.AttrEngineID:
			key.Engine = v.Str()
		case sglang.AttrResourceTPRank:
			key.Ranks.TP = sglang.RankOf(v)
		case sglang.AttrResourcePPRank:
			key.Ranks.PP = sglang.RankOf(v)
		case sglang.AttrResourceDPRank:
			key.Ranks.DP = sglang.RankOf(v)
		}
	}
	if key.Instance == "" && pid != "" {
		if hostID == "" {
			hostID = hostName
		}
		key.Instance = hostID + "/" + pid
	}
	key.Instance, key.Peer, key.Engine = bounded(key.Instance), bounded(key.Peer), bounded(key.Engine)
	return key
}

// writeOrigin puts on a resource what is known of its sender. The receiver's
// stamp goes once it is not needed any more.
func writeOrigin(res pcommon.Resource, o fold.Origin) {
	if o.Sender == nil {
		return
	}
	attrs := res.Attributes()
	engine := o.Sender.EngineID()
	if o.Proc != nil {
		writeRank(attrs, sglang.AttrResourceTPRank, o.Proc.Ranks.TP)
		writeRank(attrs, sglang.AttrResourcePPRank, o.Proc.Ranks.PP)
		writeRank(attrs, sglang.AttrResourceDPRank, o.Proc.Ranks.DP)
		engine = o.Proc.Group.EngineID()
	}
	if engine != "" {
		attrs.PutStr(sglang.AttrEngineID, engine)
		attrs.Remove(sglang.AttrExporterPeer)
	}
}

func writeRank(attrs pcommon.Map, key string, rank int32) {
	if rank != sglang.NoRank {
		attrs.PutInt(key, int64(rank))
	}
}
