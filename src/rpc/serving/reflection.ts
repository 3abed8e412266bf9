// SPDX-License-Identifier: MIT
// The built-in service that lists what a session serves: names, kinds, codecs.
import { Buffer } from 'node:buffer';
import type { Handlers, Method, MethodKind, Service } from '../contract/method-types.ts';
import { service, unary } from '../contract/service.ts';

/** A method that is served. */
export interface MethodDescription {
  /** Wire name: `Indexer.add`. */
  readonly name: string;
  readonly kind: MethodKind;
  /** Name of the codec of a request. */
  readonly request: string;
  /** Name of the codec of a response; a notification has none. */
  readonly response?: string | undefined;
  readonly idempotent: boolean;
}

/** A service that is served. */
export interface ServiceDescription {
  readonly name: string;
  readonly methods: readonly MethodDescription[];
  /**
   * For protobuf services: their namespace as protobufjs writes it in JSON; or `{ files }`, their
   * `FileDescriptorProto` messages in base64.
   */
  readonly descriptor?: unknown;
}

/**
 * Contract of the built-in service that lists what a session serves. Served to peers of our own
 * uid, or as the option `introspection` says; else `unimplemented`.
 */
export const ReflectionService = service('sidecall.Reflection', {
  list: unary<void, { readonly services: readonly ServiceDescription[] }>(),
});

/**
 * Handlers for what `services` gives at the time of the call: the methods of which `isServed` is
 * true, by their wire names.
 */
export function reflectionHandlers(
  services: () => readonly Service[],
  isServed: (wireName: string) => boolean,
): Handlers<typeof ReflectionService.methods> {
  return { list: () => ({ services: services().map((each) => describe(each, isServed)) }) };
}

function describe(described: Service, isServed: (wireName: string) => boolean): ServiceDescription {
  const methods = Object.entries(described.methods)
    .map(([method, description]) => describeMethod(described.wireName(method), description))
    .filter(({ name }) => isServed(name));
  const { name, descriptor, fileDescriptors } = described;
  if (descriptor !== undefined) return { name, methods, descriptor: descriptor() };
  if (fileDescriptors === undefined) return { name, methods };
  const files = fileDescriptors().map((bytes) => Buffer.from(bytes).toString('base64'));
  return { name, methods, descriptor: { files } };
}

function describeMethod(name: string, description: Method): MethodDescription {
  const { kind, request, idempotent } = description;
  const response = 'response' in description ? description.response.name : undefined;
  return { name, kind, request: request.name, response, idempotent };
}
