// SPDX-License-Identifier: MIT
// A contract from the methods of a `.proto` file, whichever library describes them.
import { nodeError } from '../base/misuse.ts';
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

/**
 * The contract of a service of this full name. Of two methods whose members would be one (`GetX`
 * and `get_x`), the second has the name that it has in the file.
 * @throws {TypeError} `ERR_INVALID_ARG_VALUE` that names both, where it has that name already.
 */
export function contractOf<M extends Methods>(
  name: string,
  found: readonly FoundMethod[],
  described: Pick<Service, 'descriptor' | 'fileDescriptors'>,
): Service<M> {
  const methods: Record<string, Method> = Object.create(null);
  const wireNames = new Map<string, string>();
  for (const { member: camel, wireName, method } of found) {
    const member = wireNames.has(camel) ? wireName.slice(wireName.lastIndexOf('/') + 1) : camel;
    const other = wireNames.get(member);
    if (other !== undefined) {
      const text = `${wireName} and ${other} are one member, '${member}': rename one of them`;
      throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
    }
    wireNames.set(member, wireName);
    methods[member] = method;
  }
  const wireName = (member: string): string => wireNames.get(member) ?? `${name}/${member}`;
  return Object.freeze({ name, methods: methods as unknown as M, wireName, ...described });
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
