// SPDX-License-Identifier: MIT
// grpc.health.v1.Health: the statuses of our health service in the messages of gRPC
// (grpc/doc/health-checking.md), for its tools and for the probes of Kubernetes.
import protobufjs from 'protobufjs';
import { onAbortOf } from '../../base/abort-listeners.ts';
import { RpcError } from '../../base/errors.ts';
import type { CallContext } from '../../rpc/contract/call-context.ts';
import type { Handlers } from '../../rpc/contract/method-types.ts';
import type { Health, HealthResponse, HealthStatus } from '../../rpc/serving/health.ts';
import { protobufService } from '../protobuf.ts';

const proto = `syntax = "proto3";
package grpc.health.v1;
message HealthCheckRequest { string service = 1; }
message HealthCheckResponse {
  enum ServingStatus { UNKNOWN = 0; SERVING = 1; NOT_SERVING = 2; SERVICE_UNKNOWN = 3; }
  ServingStatus status = 1;
}
message HealthListRequest {}
message HealthListResponse { map<string, HealthCheckResponse> statuses = 1; }
service Health {
  rpc Check(HealthCheckRequest) returns (HealthCheckResponse);
  rpc List(HealthListRequest) returns (HealthListResponse);
  rpc Watch(HealthCheckRequest) returns (stream HealthCheckResponse);
}`;

/** The contract of `grpc.health.v1.Health`. */
export const GrpcHealth = protobufService(
  protobufjs.parse(proto).root.lookupService('grpc.health.v1.Health'),
);

/** The numbers of the statuses, which are the places in this list. */
const statuses: readonly HealthStatus[] = ['unknown', 'serving', 'not_serving', 'service_unknown'];

interface Answer {
  readonly status: number;
}

function answerOf({ status }: HealthResponse): Answer {
  return { status: statuses.indexOf(status) };
}

/** Anonymous callers that may watch at once, in number. */
const anonymousMax = 256;
const notServing: Answer = { status: statuses.indexOf('not_serving') };

/** Settings of {@link grpcHealthHandlers}. */
export interface GrpcHealthSettings {
  /** Aborted when the listener closes: watches end, since they would hold it for its deadline. */
  readonly closing: AbortSignal;
  /** Callers that were not identified may ask, too. */
  readonly isAnonymous: boolean;
}

/** Handlers over the statuses of `health`. */
export function grpcHealthHandlers(
  health: Health,
  { closing, isAnonymous }: GrpcHealthSettings,
): Handlers<typeof GrpcHealth.methods> {
  const { check, list, watch } = health.handlers;
  let anonymousCount = 0;
  async function* watched(request: { service: string }, signal: AbortSignal) {
    let told: Answer | undefined;
    const either = new AbortController();
    const end = (): void => either.abort();
    // AbortSignal.any() would leave an entry of each call in the second one.
    const forget = [onAbortOf(signal, end), onAbortOf(closing, end)];
    const ctx = { signal: either.signal } as CallContext;
    try {
      for await (const response of watch(request, ctx) as AsyncIterable<HealthResponse>) {
        told = answerOf(response);
        yield told;
      }
    } finally {
      for (const each of forget) each();
    }
    if (closing.aborted && told?.status !== notServing.status) yield notServing;
  }
  const handlers = {
    check: async (request: { service: string }, ctx: never) => answerOf(await check(request, ctx)),
    list: async (_request: unknown, ctx: never) => {
      const { statuses: listed } = await list(undefined, ctx);
      const entries = Object.entries(listed).map(([name, status]) => [name, answerOf({ status })]);
      return { statuses: Object.fromEntries(entries) };
    },
    async *watch(request: { service: string }, { signal, peer }: CallContext) {
      const isCounted = isAnonymous && peer.uid === undefined;
      if (isCounted && anonymousCount >= anonymousMax) {
        throw new RpcError('resource_exhausted', `${anonymousMax} callers watch already`);
      }
      if (isCounted) anonymousCount += 1;
      try {
        yield* watched(request, signal);
      } finally {
        if (isCounted) anonymousCount -= 1;
      }
    },
  };
  return handlers as unknown as Handlers<typeof GrpcHealth.methods>;
}
