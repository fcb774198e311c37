# Copyright The otelcol-sglang Authors
# SPDX-License-Identifier: Apache-2.0
"""One process of an engine: makes its recorded spans again through the
OpenTelemetry SDK, set up as SGLang does (srt/observability/trace.py), at the
time at which the engine made them.

Before each repetition, when all is exported, it prints "ready" and reads from
stdin the time (ns) that stands for the capture's first span's start. --die-after N kills it in the
middle of an export, N spans after the start.
"""

import argparse
import json
import os
import signal
import sys
import threading
import time

from opentelemetry import trace
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace.status import Status, StatusCode

REMOTE = 0x200  # SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK
SCHEDULE_DELAY_MS, MAX_BATCH = 500, 64  # the engine's defaults
LOW = (1 << 64) - 1


class RecordedIds(IdGenerator):
    """Gives each span the ids that it had."""

    trace_id = span_id = 0

    def generate_trace_id(self):
        return self.trace_id

    def generate_span_id(self):
        return self.span_id


def recorded(path, peer):
    """The spans that one process exported."""
    spans = []
    with open(path + ".index.jsonl") as index, open(path + ".jsonl") as data:
        for head, line in zip(index, data):
            if json.loads(head)["peer"].removeprefix("ipv4:") != peer:
                continue
            for rs in json.loads(line)["resourceSpans"]:
                for ss in rs["scopeSpans"]:
                    spans.extend(ss["spans"])
    return sorted(spans, key=lambda s: int(s["endTimeUnixNano"]))


def plain(value):
    """An attribute's value as the engine passed it to the SDK."""
    if "intValue" in value:
        return int(value["intValue"])
    if "arrayValue" in value:
        return [plain(v) for v in value["arrayValue"].get("values", [])]
    return next(iter(value.values()))


def attributes(recorded_ones):
    return {a["key"]: plain(a["value"]) for a in recorded_ones.get("attributes", [])}


class Maker:
    def __init__(self, provider, ids, salt, shift):
        self.tracer, self.ids = provider.get_tracer("sglang server"), ids
        self.salt, self.shift = salt, shift

    def context(self, trace_id, span_id, flags):
        return trace.SpanContext(
            trace_id=int(trace_id, 16) ^ (self.salt & LOW),
            span_id=int(span_id, 16) ^ self.salt,
            is_remote=bool(flags & REMOTE),
            trace_flags=trace.TraceFlags(trace.TraceFlags.SAMPLED),
        )

    def make(self, s):
        own = self.context(s["traceId"], s["spanId"], 0)
        self.ids.trace_id, self.ids.span_id = own.trace_id, own.span_id
        parent = None
        if s.get("parentSpanId"):
            above = self.context(s["traceId"], s["parentSpanId"], s.get("flags", 0))
            parent = trace.set_span_in_context(trace.NonRecordingSpan(above))
        span = self.tracer.start_span(
            s["name"],
            context=parent,
            attributes=attributes(s),
            links=[
                trace.Link(self.context(l["traceId"], l["spanId"], l.get("flags", 0)), attributes(l))
                for l in s.get("links", [])
            ],
            start_time=int(s["startTimeUnixNano"]) + self.shift,
        )
        for event in s.get("events", []):
            span.add_event(event["name"], attributes(event), int(event["timeUnixNano"]) + self.shift)
        if s.get("status", {}).get("code") == 2:
            span.set_status(Status(StatusCode.ERROR))
        span.end(int(s["endTimeUnixNano"]) + self.shift)


def exporter(protocol, endpoint):
    if protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

        return OTLPSpanExporter(endpoint=endpoint, insecure=True)
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter(endpoint=f"http://{endpoint}/v1/traces")


def die(provider):
    """Ends this process while it exports."""
    threading.Thread(target=provider.force_flush, daemon=True).start()
    os.kill(os.getpid(), signal.SIGKILL)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--capture", required=True, help="path without .jsonl")
    p.add_argument("--peer", required=True)
    p.add_argument("--origin", type=int, required=True, help="start of the capture's first span, ns")
    p.add_argument("--protocol", choices=["grpc", "http"], required=True)
    p.add_argument("--endpoint", required=True)
    p.add_argument("--salts", required=True, help="comma-separated numbers, one for each repetition")
    p.add_argument("--die-after", type=int, default=0)
    args = p.parse_args()

    ids = RecordedIds()
    provider = TracerProvider(resource=Resource.create({SERVICE_NAME: "sglang"}), id_generator=ids)
    provider.add_span_processor(
        BatchSpanProcessor(
            exporter(args.protocol, args.endpoint),
            schedule_delay_millis=SCHEDULE_DELAY_MS,
            max_export_batch_size=MAX_BATCH,
        )
    )
    spans = recorded(args.capture, args.peer)
    salts = [int(s) for s in args.salts.split(",")]
    for n, salt in enumerate(salts):
        last = n == len(salts) - 1
        print("ready", flush=True)
        shift = int(sys.stdin.readline()) - args.origin
        maker = Maker(provider, ids, salt, shift)
        for made, s in enumerate(spans):
            if last and args.die_after and made == args.die_after:
                die(provider)
            time.sleep(max(0, int(s["endTimeUnixNano"]) + shift - time.time_ns()) / 1e9)
            maker.make(s)
        provider.force_flush()
    provider.shutdown()


if __name__ == "__main__":
    main()
