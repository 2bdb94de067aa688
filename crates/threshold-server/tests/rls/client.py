"""A client of Envoy's rate limit service, made of what others generated: it does what a line of JSON asks, and answers
with one."""

import json
import sys

import grpc
from envoy.service.ratelimit.v3 import rls_pb2, rls_pb2_grpc
from google.protobuf import json_format
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

PATIENCE = 60


def limit(channel, asked):
    """All calls at the same time; what each was answered, in their order."""
    stub = rls_pb2_grpc.RateLimitServiceStub(channel)
    requests = [json_format.ParseDict(call, rls_pb2.RateLimitRequest()) for call in asked["calls"]]
    metadata = [tuple(pair) for pair in asked.get("metadata", [])]
    calls = [stub.ShouldRateLimit.future(request, timeout=PATIENCE, metadata=metadata) for request in requests]
    return [result(call) for call in calls]


def result(call):
    try:
        return json_format.MessageToDict(call.result(), preserving_proto_field_name=True)
    except grpc.RpcError as error:
        return {"error": error.code().name, "details": error.details()}


def health(channel, asked):
    stub = health_pb2_grpc.HealthStub(channel)
    request = health_pb2.HealthCheckRequest(service=asked["service"])
    told = []
    try:
        told.append(name(stub.Check(request, timeout=PATIENCE)))
    except grpc.RpcError as error:
        told.append(error.code().name)
    watching = stub.Watch(request, timeout=PATIENCE)
    told.append(name(next(watching)))
    if asked.get("until_the_end"):
        print(json.dumps(told), flush=True)
        try:
            told.extend(name(status) for status in watching)
        except grpc.RpcError as error:
            told.append(error.code().name)
    watching.cancel()
    return told


def name(response):
    return health_pb2.HealthCheckResponse.ServingStatus.Name(response.status)


def reflection(channel, _asked):
    database = ProtoReflectionDescriptorDatabase(channel)
    pool = DescriptorPool(database)
    service = pool.FindServiceByName("envoy.service.ratelimit.v3.RateLimitService")
    method = service.methods_by_name["ShouldRateLimit"]
    return {
        "services": sorted(database.get_services()),
        "fields": [field.name for field in method.input_type.fields],
        "answer": [field.name for field in method.output_type.fields],
    }


def main():
    options = [("grpc.use_local_subchannel_pool", 1)]
    for line in sys.stdin:
        asked = json.loads(line)
        with grpc.insecure_channel(asked["address"], options) as channel:
            print(json.dumps(globals()[asked["do"]](channel, asked)), flush=True)


main()
