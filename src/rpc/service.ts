// SPDX-License-Identifier: MIT
// A contract that both processes import: names, kinds and codecs of methods, and their types.
import { nodeError } from '../errors.ts';
import { fixed } from '../limits.ts';
import { checkKeys } from '../options.ts';
import type { CallContext, CallOptions } from './call.ts';
import { type Codec, json } from './codec.ts';

/** Codecs of a method; each default is JSON. */
export interface MethodOptions<Req, Res> {
  readonly request?: Codec<Req> | undefined;
  readonly response?: Codec<Res> | undefined;
}

/** One request, one response. */
export interface UnaryMethod<Req, Res> {
  readonly kind: 'unary';
  readonly request: Codec<Req>;
  readonly response: Codec<Res>;
}

/** One request, no response. */
export interface NotificationMethod<Req> {
  readonly kind: 'notification';
  readonly request: Codec<Req>;
}

// biome-ignore lint/suspicious/noExplicitAny: a method of any types
export type Method = UnaryMethod<any, any> | NotificationMethod<any>;
/** Methods by their names. */
export type Methods = { readonly [name: string]: Method };

/** A named set of methods, as {@link service} makes it. */
export interface Service<M extends Methods = Methods> {
  readonly name: string;
  readonly methods: M;
  /** Name of a method on the wire: `Indexer.add`. */
  wireName(method: keyof M & string): string;
}

// A request that may be undefined may be left out.
type Arguments<Req> = undefined extends Req
  ? [request?: Req, options?: CallOptions]
  : [request: Req, options?: CallOptions];

/** The functions that a caller gets for a contract. */
export type Client<M extends Methods> = {
  readonly [Name in keyof M]: M[Name] extends UnaryMethod<infer Req, infer Res>
    ? (...args: Arguments<Req>) => Promise<Res>
    : M[Name] extends NotificationMethod<infer Req>
      ? (...args: Arguments<Req>) => Promise<void>
      : never;
};

/** The functions that whoever serves a contract gives. */
export type Handlers<M extends Methods> = {
  readonly [Name in keyof M]: M[Name] extends UnaryMethod<infer Req, infer Res>
    ? (request: Req, ctx: CallContext) => Res | Promise<Res>
    : M[Name] extends NotificationMethod<infer Req>
      ? (request: Req, ctx: CallContext) => unknown
      : never;
};

/**
 * A method with one request and one response, in JSON unless codecs say otherwise.
 * @throws {TypeError} for unknown options.
 */
export function unary<Req = unknown, Res = unknown>(
  options: MethodOptions<Req, Res> = {},
): UnaryMethod<NoInfer<Req>, NoInfer<Res>> {
  checkKeys('unary()', options, ['request', 'response']);
  checkCodec('unary().request', options.request);
  checkCodec('unary().response', options.response);
  return {
    kind: 'unary',
    request: options.request ?? json<Req>(),
    response: options.response ?? json<Res>(),
  };
}

/**
 * A method whose caller wants no answer. The caller's promise resolves when the message was admitted;
 * it holds its place on the session until the handler settled.
 * @throws {TypeError} for unknown options.
 */
export function notification<Req = unknown>(
  options: { readonly request?: Codec<Req> | undefined } = {},
): NotificationMethod<NoInfer<Req>> {
  checkKeys('notification()', options, ['request']);
  checkCodec('notification().request', options.request);
  return { kind: 'notification', request: options.request ?? json<Req>() };
}

/**
 * Describes a service once for both processes.
 * @param name wire name of the service; method names are appended with a dot.
 * @throws {TypeError} for an empty or over-long name, or a method not made by {@link unary} or {@link notification}.
 */
export function service<M extends Methods>(name: string, methods: M): Service<M> {
  if (typeof name !== 'string' || name === '') {
    throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', 'service(): the name must be a string');
  }
  if (typeof methods !== 'object' || methods === null) {
    throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', `service('${name}') needs methods`);
  }
  for (const [method, description] of Object.entries(methods)) {
    checkMethodName(`${name}.${method}`);
    if (description?.kind === 'unary' || description?.kind === 'notification') continue;
    const words = `service('${name}'): ${method} must be made by unary() or notification()`;
    throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', words);
  }
  return Object.freeze({ name, methods, wireName: (method: string) => `${name}.${method}` });
}

/** @throws {TypeError} where something else stands in a codec's place. */
function checkCodec(what: string, codec: unknown): void {
  if (codec === undefined) return;
  const { encode, decode } = (codec ?? {}) as Partial<Codec<unknown>>;
  if (typeof encode === 'function' && typeof decode === 'function') return;
  throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', `${what} must be a codec, as bytes or json()`);
}

/** @throws {TypeError} where what was given is no contract. */
export function checkService(what: string, service: unknown): void {
  const { wireName, methods } = (service ?? {}) as Partial<Service>;
  if (typeof wireName === 'function' && typeof methods === 'object') return;
  throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', `${what} needs a contract made by service()`);
}

/** @throws {TypeError} where a method name is empty or longer than the protocol carries. */
export function checkMethodName(name: string): void {
  const bytes = typeof name === 'string' ? Buffer.byteLength(name) : 0;
  if (bytes > 0 && bytes <= fixed.methodNameMaxBytes) return;
  const words = `a method name has 1 to ${fixed.methodNameMaxBytes} bytes, '${name}' has ${bytes}`;
  throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', words);
}
