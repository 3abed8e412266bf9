// SPDX-License-Identifier: MIT
// A contract from the methods of a `.proto` file, whichever library describes them.
import type { Codec } from '../rpc/contract/codec.ts';
import type { Method, Methods, Service } from '../rpc/contract/method-types.ts';
import { bidi, clientStream, serverStream, unary } from '../rpc/contract/service.ts';

/** A method and its two names. */
export interface FoundMethod {
  readonly member: string;
  /** As gRPC has it: `demo.Indexer/AddOne`. */
  readonly wireName: string;
  readonly method: Method;
}

/** The contract of a service of this full name. */
export function contractOf<M extends Methods>(
  name: string,
  found: readonly FoundMethod[],
  described: Pick<Service, 'descriptor' | 'fileDescriptors'>,
): Service<M> {
  const methods = Object.fromEntries(found.map(({ member, method }) => [member, method]));
  const wireNames = new Map(found.map(({ member, wireName }) => [member, wireName]));
  const wireName = (member: string): string => wireNames.get(member) ?? `${name}/${member}`;
  return Object.freeze({ name, methods: methods as M, wireName, ...described });
}

/** A method by the streams of its two sides. */
export function methodOf(
  streams: {
    readonly requestStream?: boolean | undefined;
    readonly responseStream?: boolean | undefined;
  },
  // biome-ignore lint/suspicious/noExplicitAny: the descriptor knows the types
  codecs: { readonly request: Codec<any, any>; readonly response: Codec<any, any> },
  settings: { readonly idempotent?: boolean } = {},
): Method {
  const options = { ...codecs, ...settings };
  if (streams.requestStream === true) {
    return streams.responseStream === true ? bidi(options) : clientStream(options);
  }
  return streams.responseStream === true ? serverStream(options) : unary(options);
}

/** As protobufjs names members: `AddOne` and `add_one` are `addOne`. */
export function camelCase(name: string): string {
  const joined = name.replace(/_([a-z])/gi, (_, letter: string) => letter.toUpperCase());
  return joined.charAt(0).toLowerCase() + joined.slice(1);
}
