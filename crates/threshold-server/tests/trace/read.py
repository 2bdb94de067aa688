"""Reads requests to export traces, one a file, with OpenTelemetry's own messages; prints every span as one line of JSON."""

import json
import sys

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


def plain(value):
    return getattr(value, value.WhichOneof("value"))


def attributes(pairs):
    return {pair.key: plain(pair.value) for pair in pairs}


for name in sys.argv[1:]:
    with open(name, "rb") as file:
        request = ExportTraceServiceRequest.FromString(file.read())
    for of_resource in request.resource_spans:
        for of_scope in of_resource.scope_spans:
            for span in of_scope.spans:
                # What it does not know would mean that something is written which is not in OTLP.
                assert span.ByteSize() == len(span.SerializeToString())
                print(json.dumps({
                    "resource": attributes(of_resource.resource.attributes),
                    "scope": of_scope.scope.name,
                    "trace": span.trace_id.hex(),
                    "id": span.span_id.hex(),
                    "parent": span.parent_span_id.hex(),
                    "state": span.trace_state,
                    "name": span.name,
                    "kind": span.kind,
                    "begun": span.start_time_unix_nano,
                    "ended": span.end_time_unix_nano,
                    "attributes": attributes(span.attributes),
                    "status": span.status.code,
                }))
