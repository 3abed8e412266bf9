// The service that the interop programs of gRPC call (grpc/doc/interop-test-descriptions.md).
import protobufjs from 'protobufjs';
import { protobufService } from '../../src/adapters/protobuf.ts';
import { type FailureStatus, statuses } from '../../src/base/error-codes.ts';
import { RpcError } from '../../src/base/errors.ts';
import type { CallContext } from '../../src/rpc/contract/call-context.ts';
import { type Implementation, implement } from '../../src/rpc/serving/implementation.ts';

const proto = `syntax = "proto3";
package grpc.testing;
message Empty {}
message Payload { int32 type = 1; bytes body = 2; }
message EchoStatus { int32 code = 1; string message = 2; }
message BoolValue { bool value = 1; }
message SimpleRequest {
  int32 response_type = 1;
  int32 response_size = 2;
  Payload payload = 3;
  EchoStatus response_status = 7;
}
message SimpleResponse { Payload payload = 1; string username = 2; string oauth_scope = 3; }
message StreamingInputCallRequest { Payload payload = 1; }
message StreamingInputCallResponse { int32 aggregated_payload_size = 1; }
message ResponseParameters { int32 size = 1; int32 interval_us = 2; }
message StreamingOutputCallRequest {
  int32 response_type = 1;
  repeated ResponseParameters response_parameters = 2;
  Payload payload = 3;
  EchoStatus response_status = 7;
}
message StreamingOutputCallResponse { Payload payload = 1; }
service TestService {
  rpc EmptyCall(Empty) returns (Empty);
  rpc UnaryCall(SimpleRequest) returns (SimpleResponse);
  rpc StreamingOutputCall(StreamingOutputCallRequest) returns (stream StreamingOutputCallResponse);
  rpc StreamingInputCall(stream StreamingInputCallRequest) returns (StreamingInputCallResponse);
  rpc FullDuplexCall(stream StreamingOutputCallRequest) returns (stream StreamingOutputCallResponse);
}`;

const TestService = protobufService(
  protobufjs.parse(proto).root.lookupService('grpc.testing.TestService'),
);

interface OutputRequest {
  readonly responseParameters: readonly { size: number; intervalUs: number }[];
  readonly responseStatus: { code: number; message: string } | null;
}

function echoMetadata(ctx: CallContext): void {
  const { metadata } = ctx;
  const initial = metadata['x-grpc-test-echo-initial'];
  const trailing = metadata['x-grpc-test-echo-trailing-bin'];
  if (initial !== undefined) ctx.sendHeaders({ 'x-grpc-test-echo-initial': initial });
  if (trailing !== undefined) ctx.trailers = { 'x-grpc-test-echo-trailing-bin': trailing };
}

function throwStatus(status: OutputRequest['responseStatus']): void {
  if (status === null || status.code === 0) return;
  throw new RpcError(statuses[status.code] as FailureStatus, status.message);
}

const payload = (size: number): object => ({ payload: { body: Buffer.alloc(size) } });

/** As the descriptions say. */
export const testService: Implementation = implement(TestService, {
  emptyCall: () => ({}),
  unaryCall: (
    request: { responseSize: number; responseStatus: OutputRequest['responseStatus'] },
    ctx: CallContext,
  ) => {
    echoMetadata(ctx);
    throwStatus(request.responseStatus);
    return payload(request.responseSize);
  },
  async *streamingOutputCall({ responseParameters }: OutputRequest) {
    for (const { size } of responseParameters) yield payload(size);
  },
  async streamingInputCall(requests: AsyncIterable<{ payload: { body: Uint8Array } | null }>) {
    let aggregatedPayloadSize = 0;
    for await (const request of requests) {
      aggregatedPayloadSize += request.payload?.body.byteLength ?? 0;
    }
    return { aggregatedPayloadSize };
  },
  async *fullDuplexCall(requests: AsyncIterable<OutputRequest>, ctx: CallContext) {
    echoMetadata(ctx);
    for await (const { responseParameters, responseStatus } of requests) {
      throwStatus(responseStatus);
      for (const { size } of responseParameters) yield payload(size);
    }
  },
  // biome-ignore lint/suspicious/noExplicitAny: reflection knows no types at compile time
} as any);
