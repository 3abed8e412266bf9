// SPDX-License-Identifier: MIT
// A contract as a service of grpc-js.

import type { ServiceDefinition, sendUnaryData, UntypedServiceImplementation } from '@grpc/grpc-js';
import { nodeError } from '../base/misuse.ts';
import { bytes } from '../rpc/contract/codec.ts';
import type { Method, MethodKind, Service } from '../rpc/contract/method-types.ts';
import { bidi, clientStream, serverStream, unary } from '../rpc/contract/service.ts';
import { type AnyCall, CallBridge, type GrpcServiceParts } from './grpc-call.ts';

const pass = (value: Uint8Array): Buffer =>
  Buffer.from(value.buffer, value.byteOffset, value.byteLength);

const rawMethods: { readonly [Kind in Exclude<MethodKind, 'notification'>]: () => Method } = {
  unary: () => unary({ request: bytes, response: bytes }),
  serverStream: () => serverStream({ request: bytes, response: bytes }),
  clientStream: () => clientStream({ request: bytes, response: bytes }),
  bidi: () => bidi({ request: bytes, response: bytes }),
};

/** @throws {TypeError} for a contract that gRPC cannot carry. */
export function definitionOf(service: Service): ServiceDefinition {
  const entries = Object.entries(service.methods).map(([member, { kind }]) => {
    const wireName = service.wireName(member);
    if (kind === 'notification' || !/^[\w.]+\/\w+$/.test(wireName)) {
      const text = `serveGrpc(): '${wireName}' is no method of gRPC; contracts come from protobufService()`;
      throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
    }
    const definition = {
      path: `/${wireName}`,
      requestStream: kind === 'clientStream' || kind === 'bidi',
      responseStream: kind === 'serverStream' || kind === 'bidi',
      requestSerialize: pass,
      requestDeserialize: pass,
      responseSerialize: pass,
      responseDeserialize: pass,
    };
    return [member, definition];
  });
  return Object.fromEntries(entries);
}

/** Handlers for grpc-js, of {@link definitionOf}. */
export function implementationOf(parts: GrpcServiceParts): UntypedServiceImplementation {
  const raw = rawService(parts.service);
  const entries = Object.entries(parts.service.methods).map(([member, { kind }]) => {
    const isStream = kind === 'serverStream' || kind === 'bidi';
    const handler = (call: AnyCall, callback: sendUnaryData<Uint8Array>): void => {
      const bridge = new CallBridge(parts, call);
      if (isStream) void bridge.stream(raw, member);
      else void bridge.single(raw, member, callback);
    };
    return [member, handler];
  });
  return Object.fromEntries(entries);
}

/** The same methods under the same names, of bytes: the serving end decodes them. */
function rawService({ name, methods, wireName }: Service): Service {
  const raw = Object.entries(methods).map(([member, { kind }]) => [
    member,
    rawMethods[kind as keyof typeof rawMethods](),
  ]);
  return { name, methods: Object.fromEntries(raw), wireName };
}
