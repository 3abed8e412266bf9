// SPDX-License-Identifier: MIT
// A contract as gRPC has it: paths, kinds, and methods of bytes.

import { Buffer } from 'node:buffer';
import type { ServiceDefinition, sendUnaryData, UntypedServiceImplementation } from '@grpc/grpc-js';
import { nodeError } from '../../base/misuse.ts';
import { bytes } from '../../rpc/contract/codec.ts';
import { leased } from '../../rpc/contract/leases.ts';
import type { Method, MethodKind, Service } from '../../rpc/contract/method-types.ts';
import {
  bidi,
  clientStream,
  notification,
  serverStream,
  unary,
} from '../../rpc/contract/service.ts';
import { type AnyCall, CallBridge, type GrpcServiceParts } from './call-bridge.ts';

/** Bytes as the `Buffer` that grpc-js needs, without a copy. */
export const asBuffer = (value: Uint8Array): Buffer =>
  Buffer.from(value.buffer, value.byteOffset, value.length);

const rawMethods: { readonly [Kind in MethodKind]: () => Method } = {
  unary: () => unary({ request: bytes, response: bytes }),
  serverStream: () => serverStream({ request: bytes, response: bytes }),
  clientStream: () => clientStream({ request: bytes, response: bytes }),
  bidi: () => bidi({ request: bytes, response: bytes }),
  notification: () => notification({ request: bytes }),
};

/** The kinds of methods, as streams. */
function streamsOf(kind: MethodKind): { requestStream: boolean; responseStream: boolean } {
  return {
    requestStream: kind === 'clientStream' || kind === 'bidi',
    responseStream: kind === 'serverStream' || kind === 'bidi',
  };
}

/**
 * The path of a method: `/demo.Indexer/AddOne` for one of a `.proto` file, `/Indexer/add` for one
 * of `service('Indexer', { add: … })`.
 * @throws {TypeError} for a method that gRPC cannot carry.
 */
export function pathOf(what: string, service: Service, member: string): string {
  const wireName = service.wireName(member);
  const method = service.methods[member] as Method;
  const codecs = 'response' in method ? [method.request, method.response] : [method.request];
  if (codecs.includes(leased)) {
    const text = `${what}: '${wireName}' has leased messages, which are memory of this machine; gRPC carries copies: use the codec bytes`;
    throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
  }
  const name = wireName === `${service.name}.${member}` ? `${service.name}/${member}` : wireName;
  if (/^[\w.]+\/\w+$/.test(name)) return `/${name}`;
  const text = `${what}: '${wireName}' is no name for gRPC: services and methods are named by letters, digits and _, services also with dots`;
  throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
}

/**
 * The definition of a contract for grpc-js.
 * @throws {TypeError} for a contract that gRPC cannot carry.
 */
export function definitionOf(what: string, service: Service): ServiceDefinition {
  const entries = Object.entries(service.methods).map(([member, { kind }]) => {
    const definition = {
      path: pathOf(what, service, member),
      ...streamsOf(kind),
      requestSerialize: asBuffer,
      requestDeserialize: asBuffer,
      responseSerialize: asBuffer,
      responseDeserialize: asBuffer,
    };
    return [member, definition];
  });
  return Object.fromEntries(entries);
}

/** Handlers for grpc-js, of {@link definitionOf}. */
export function implementationOf(
  parts: GrpcServiceParts,
  service: Service,
): UntypedServiceImplementation {
  const raw = rawService(service);
  const entries = Object.entries(service.methods).map(([member, { kind, request }]) => {
    const { responseStream } = streamsOf(kind);
    const wireName = service.wireName(member);
    const isNotification = kind === 'notification';
    const method = { raw, member, wireName, isNotification, codec: request.name };
    const handler = (call: AnyCall, callback: sendUnaryData<Uint8Array>): void => {
      const bridge = new CallBridge(parts, call, method);
      if (responseStream) void bridge.stream();
      else void bridge.single(callback);
    };
    return [member, handler];
  });
  return Object.fromEntries(entries);
}

/** The same methods under the same names, of bytes: the serving end decodes them. */
function rawService({ name, methods, wireName }: Service): Service {
  const raw = Object.entries(methods).map(([member, { kind }]) => [member, rawMethods[kind]()]);
  return { name, methods: Object.fromEntries(raw), wireName };
}
