// SPDX-License-Identifier: MIT
// `sidecall` where a bundler builds for a browser (the condition `browser`): contracts and errors,
// so that a page and a helper import the same contract. Neither this module nor its imports need
// Node.
import type { BytesCodec, Codec } from './rpc/contract/codec.ts';
import type * as jsonCodec from './rpc/contract/json.ts';
import type * as lease from './rpc/contract/leases.ts';
import type * as schema from './rpc/contract/schema.ts';
import type * as contract from './rpc/contract/service.ts';

export { RpcError, SidecallError } from './base/errors.ts';

type Contract = typeof contract;

function elsewhere(): never {
  const text =
    "this is sidecall for pages (export condition 'browser'), which send structured clones; a test with a DOM needs the condition 'node' (docs/guide/bundlers.md)";
  throw new TypeError(text);
}

function codec(name: string): Codec<never> {
  return { name, encode: elsewhere, decode: elsewhere };
}

/** As in a process: messages of this codec are `Uint8Array`s. */
export const bytes = {
  ...codec('bytes'),
  borrowed: codec('bytes'),
} as unknown as BytesCodec;

/**
 * As in a process, for contracts that have methods a page does not call: no page can hold a lease.
 */
export const leased = codec('leased') as unknown as typeof lease.leased;

const anyJson = codec('json');

/** As in a process. */
export const json = (() => anyJson) as unknown as typeof jsonCodec.json;

/** As in a process: the schema is asked there, not in the page. */
export const validated: typeof schema.validated = () => anyJson;

function method(kind: string) {
  return (options: object = {}): object => ({
    kind,
    request: anyJson,
    response: anyJson,
    priority: 'normal',
    idempotent: false,
    ...options,
  });
}

/** As in a process. */
export const unary = method('unary') as unknown as Contract['unary'];
/** As in a process. */
export const serverStream = method('serverStream') as unknown as Contract['serverStream'];
/** As in a process. */
export const clientStream = method('clientStream') as unknown as Contract['clientStream'];
/** As in a process. */
export const bidi = method('bidi') as unknown as Contract['bidi'];
/** As in a process. */
export const notification = method('notification') as unknown as Contract['notification'];

/** As in a process. */
export const service: Contract['service'] = (name, methods) =>
  Object.freeze({ name, methods, wireName: (member: string) => `${name}.${member}` });
