// SPDX-License-Identifier: MIT
// A contract that both processes import: names, kinds and codecs of methods, and their types.
import { nodeError } from '../../base/errors.ts';
import { fixed } from '../../base/limits.ts';
import { checkKeys } from '../../base/misuse.ts';
import { CallKind } from '../../wire/frame.ts';
import type { Bidi, ClientStream, ServerStream } from '../calling/caller-streams.ts';
import type { CallContext, CallOptions } from './call.ts';
import type { Codec } from './codec.ts';
import { json } from './json.ts';
import type { IfJson } from './jsonable.ts';

/** How a method is sent. */
export interface MethodSettings {
  /**
   * `bulk`: its messages, in both directions, go behind those of others, and never more than two fragments
   * of them are on the way. Default `normal`; messages above 64 KiB are bulk in any case.
   */
  readonly priority?: 'normal' | 'bulk' | undefined;
  /** Running it twice does the same as once: a client's `retry` may repeat it. Default: no. */
  readonly idempotent?: boolean | undefined;
}

/** Codecs of a method, each JSON unless said otherwise, and how it is sent. */
export interface MethodOptions<Req, Res, ReqIn = Req, ResIn = Res> extends MethodSettings {
  readonly request?: Codec<Req, ReqIn> | undefined;
  readonly response?: Codec<Res, ResIn> | undefined;
}

/**
 * What methods have but notifications. `Req` and `Res` are what arrives; `ReqIn` and `ResIn` what may be sent,
 * where a codec takes more.
 */
export interface MethodBase<Req, Res, ReqIn = Req, ResIn = Res> {
  readonly request: Codec<Req, ReqIn>;
  readonly response: Codec<Res, ResIn>;
  readonly priority: 'normal' | 'bulk';
  readonly idempotent: boolean;
}

/** One request, one response. */
export interface UnaryMethod<Req, Res, ReqIn = Req, ResIn = Res>
  extends MethodBase<Req, Res, ReqIn, ResIn> {
  readonly kind: 'unary';
}

/** One request, a stream of responses. */
export interface ServerStreamMethod<Req, Res, ReqIn = Req, ResIn = Res>
  extends MethodBase<Req, Res, ReqIn, ResIn> {
  readonly kind: 'serverStream';
}

/** A stream of requests, one response. */
export interface ClientStreamMethod<Req, Res, ReqIn = Req, ResIn = Res>
  extends MethodBase<Req, Res, ReqIn, ResIn> {
  readonly kind: 'clientStream';
}

/** A stream of requests and a stream of responses, at the same time. */
export interface BidiMethod<Req, Res, ReqIn = Req, ResIn = Res>
  extends MethodBase<Req, Res, ReqIn, ResIn> {
  readonly kind: 'bidi';
}

/** One request, no response. */
export interface NotificationMethod<Req, ReqIn = Req> {
  readonly kind: 'notification';
  readonly request: Codec<Req, ReqIn>;
  readonly idempotent: boolean;
}

/** What a method of a contract is. */
export type MethodKind = Method['kind'];

export type Method =
  // biome-ignore lint/suspicious/noExplicitAny: a method of any types
  | UnaryMethod<any, any, any, any>
  // biome-ignore lint/suspicious/noExplicitAny: as above
  | ServerStreamMethod<any, any, any, any>
  // biome-ignore lint/suspicious/noExplicitAny: as above
  | ClientStreamMethod<any, any, any, any>
  // biome-ignore lint/suspicious/noExplicitAny: as above
  | BidiMethod<any, any, any, any>
  // biome-ignore lint/suspicious/noExplicitAny: as above
  | NotificationMethod<any, any>;
/** A method whose kind and types are known at run time only. `untyped` is for the compiler: nobody sets it. */
export type UntypedMethod = Method & { readonly untyped: true };

/** Methods by their names. */
export type Methods = { readonly [name: string]: Method };

/** A named set of methods, as {@link service} makes it. */
export interface Service<M extends Methods = Methods> {
  readonly name: string;
  readonly methods: M;
  /** Name of a method on the wire: `Indexer.add`. */
  wireName(method: keyof M & string): string;
  /** What tools are told of its messages, where it has descriptors. */
  readonly descriptor?: (() => unknown) | undefined;
}

// A request that may be undefined may be left out.
type Arguments<Req> = undefined extends Req
  ? [request?: Req, options?: CallOptions]
  : [request: Req, options?: CallOptions];

/**
 * Requests of a stream, as something to iterate. A text is refused: its letters would be sent one
 * by one.
 */
export type Requests<Req> = AsyncIterable<Req> | (Iterable<Req> & object);

/** A method that takes a stream: given one, or sent to. */
export interface ClientStreamFunction<Req, Res> {
  (options?: CallOptions): ClientStream<Req, Res>;
  (requests: Requests<Req>, options?: CallOptions): Promise<Res>;
}

/** A method that takes a stream and answers with one. */
export interface BidiFunction<Req, Res> {
  (options?: CallOptions): Bidi<Req, Res>;
  (requests: Requests<Req>, options?: CallOptions): ServerStream<Res>;
}

/** Methods of the given types, by their kinds. */
interface MethodsByKind<Req, Res, ReqIn, ResIn> {
  unary: UnaryMethod<Req, Res, ReqIn, ResIn>;
  serverStream: ServerStreamMethod<Req, Res, ReqIn, ResIn>;
  clientStream: ClientStreamMethod<Req, Res, ReqIn, ResIn>;
  bidi: BidiMethod<Req, Res, ReqIn, ResIn>;
}

type Made<Kind extends keyof MethodsByKind<0, 0, 0, 0>, Req, Res, ReqIn, ResIn> = MethodsByKind<
  NoInfer<Req>,
  NoInfer<Res>,
  NoInfer<ReqIn>,
  NoInfer<ResIn>
>[Kind];

/**
 * Makes methods of one kind. A type without a codec of its own must be one that JSON carries as it
 * is: with a `Date` in it, say, `service()` does not take the result, and the compiler names the
 * place. A generic function of your own, whose types are not known yet, gives its codecs.
 */
export interface MethodMaker<Kind extends keyof MethodsByKind<0, 0, 0, 0>> {
  <Req, Res, ReqIn = Req, ResIn = Res>(
    options: MethodSettings & {
      readonly request: Codec<Req, ReqIn>;
      readonly response: Codec<Res, ResIn>;
    },
  ): Made<Kind, Req, Res, ReqIn, ResIn>;
  <Req, Res = unknown, ReqIn = Req, ResIn = Res>(
    options: MethodSettings & {
      readonly request: Codec<Req, ReqIn>;
      readonly response?: undefined;
    },
  ): IfJson<Res, Made<Kind, Req, Res, ReqIn, ResIn>>;
  <Req, Res, ReqIn = Req, ResIn = Res>(
    options: MethodSettings & {
      readonly request?: undefined;
      readonly response: Codec<Res, ResIn>;
    },
  ): IfJson<Req, Made<Kind, Req, Res, ReqIn, ResIn>>;
  <Req = unknown, Res = unknown, ReqIn = Req, ResIn = Res>(
    options?: MethodSettings & { readonly request?: undefined; readonly response?: undefined },
  ): IfJson<Req, IfJson<Res, Made<Kind, Req, Res, ReqIn, ResIn>>>;
}

/** The functions that a caller gets for a contract. */
export type Client<M extends Methods> = {
  readonly [Name in keyof M]: M[Name] extends UntypedMethod
    ? // biome-ignore lint/suspicious/noExplicitAny: nothing is known
      (...args: any[]) => any
    : M[Name] extends UnaryMethod<infer _, infer Res, infer Req, infer _>
      ? (...args: Arguments<Req>) => Promise<Res>
      : M[Name] extends ServerStreamMethod<infer _, infer Res, infer Req, infer _>
        ? (...args: Arguments<Req>) => ServerStream<Res>
        : M[Name] extends ClientStreamMethod<infer _, infer Res, infer Req, infer _>
          ? ClientStreamFunction<Req, Res>
          : M[Name] extends BidiMethod<infer _, infer Res, infer Req, infer _>
            ? BidiFunction<Req, Res>
            : M[Name] extends NotificationMethod<infer _, infer Req>
              ? (...args: Arguments<Req>) => Promise<void>
              : never;
};

/** Responses of a stream, as its handler gives them: an async generator, or anything to iterate but a text. */
export type Responses<Res> = AsyncIterable<Res> | (Iterable<Res> & object);

/** The functions that whoever serves a contract gives. */
export type Handlers<M extends Methods> = {
  readonly [Name in keyof M]: M[Name] extends UntypedMethod
    ? // biome-ignore lint/suspicious/noExplicitAny: nothing is known
      (request: any, ctx: CallContext) => any
    : M[Name] extends UnaryMethod<infer Req, infer _, infer _, infer Res>
      ? (request: Req, ctx: CallContext) => Res | Promise<Res>
      : M[Name] extends ServerStreamMethod<infer Req, infer _, infer _, infer Res>
        ? (request: Req, ctx: CallContext) => Responses<Res> | Promise<Responses<Res>>
        : M[Name] extends ClientStreamMethod<infer Req, infer _, infer _, infer Res>
          ? (requests: AsyncIterableIterator<Req>, ctx: CallContext) => Res | Promise<Res>
          : M[Name] extends BidiMethod<infer Req, infer _, infer _, infer Res>
            ? (
                requests: AsyncIterableIterator<Req>,
                ctx: CallContext,
              ) => Responses<Res> | Promise<Responses<Res>>
            : M[Name] extends NotificationMethod<infer Req, infer _>
              ? (request: Req, ctx: CallContext) => unknown
              : never;
};

/** Numbers of the kinds on the wire. */
export const callKindOf: Readonly<Record<MethodKind, number>> = {
  unary: CallKind.unary,
  notification: CallKind.notification,
  serverStream: CallKind.serverStream,
  clientStream: CallKind.clientStream,
  bidi: CallKind.bidi,
};

/**
 * A method with one request and one response, in JSON unless codecs say otherwise.
 * @throws {TypeError} for unknown options.
 */
export const unary = maker('unary');

/**
 * A method with one request and any number of responses. The handler is an async generator (or returns
 * something to iterate): each `yield` waits until the caller's window has room.
 * @throws {TypeError} for unknown options.
 */
export const serverStream = maker('serverStream');

/**
 * A method with any number of requests and one response. The handler iterates the requests; what it has
 * taken makes room for more.
 * @throws {TypeError} for unknown options.
 */
export const clientStream = maker('clientStream');

/**
 * A method with any number of requests and responses, each side at its own pace.
 * @throws {TypeError} for unknown options.
 */
export const bidi = maker('bidi');

/**
 * A method whose caller wants no answer. All notifications of a session are one stream: their handlers are
 * started in the order of the calls, and each holds its place in the stream's window until its handler
 * settled, so that the promise of a call waits for slow ones. It resolves when the message was admitted.
 * @throws {TypeError} for unknown options.
 */
export function notification<Req, ReqIn = Req>(options: {
  readonly request: Codec<Req, ReqIn>;
  readonly idempotent?: boolean | undefined;
}): NotificationMethod<NoInfer<Req>, NoInfer<ReqIn>>;
export function notification<Req = unknown, ReqIn = Req>(options?: {
  readonly request?: undefined;
  readonly idempotent?: boolean | undefined;
}): IfJson<Req, NotificationMethod<NoInfer<Req>, NoInfer<ReqIn>>>;
export function notification(
  options: {
    readonly request?: Codec<unknown> | undefined;
    readonly idempotent?: boolean | undefined;
  } = {},
): NotificationMethod<unknown> {
  checkKeys('notification()', options, ['request', 'idempotent']);
  checkCodec('notification().request', options.request);
  const idempotent = checkBoolean('notification().idempotent', options.idempotent);
  return { kind: 'notification', request: options.request ?? anyJson, idempotent };
}

function maker<Kind extends keyof MethodsByKind<0, 0, 0, 0>>(kind: Kind): MethodMaker<Kind> {
  const make = (options: MethodOptions<unknown, unknown> = {}): unknown => ({
    kind,
    ...checkMethod(`${kind}()`, options),
  });
  return make as MethodMaker<Kind>;
}

// biome-ignore lint/suspicious/noExplicitAny: the contract says of what types it is
const anyJson: Codec<any, any> = json();

function checkMethod<Req, Res, ReqIn, ResIn>(
  what: string,
  options: MethodOptions<Req, Res, ReqIn, ResIn>,
): MethodBase<Req, Res, ReqIn, ResIn> {
  checkKeys(what, options, ['request', 'response', 'priority', 'idempotent']);
  checkCodec(`${what}.request`, options.request);
  checkCodec(`${what}.response`, options.response);
  return {
    request: options.request ?? anyJson,
    response: options.response ?? anyJson,
    priority: checkPriority(what, options.priority),
    idempotent: checkBoolean(`${what}.idempotent`, options.idempotent),
  };
}

/** @throws {TypeError} `ERR_INVALID_ARG_VALUE`. */
export function checkPriority(
  what: string,
  priority: 'normal' | 'bulk' | undefined,
): 'normal' | 'bulk' {
  if (priority === undefined) return 'normal';
  if (priority === 'normal' || priority === 'bulk') return priority;
  const words = `${what}: priority must be normal or bulk, got '${String(priority)}'`;
  throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', words);
}

function checkBoolean(what: string, value: boolean | undefined): boolean {
  if (value === undefined || typeof value === 'boolean') return value ?? false;
  throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', `${what} must be true or false`);
}

/**
 * Describes a service once for both processes.
 * @param name wire name of the service; method names are appended with a dot.
 * @throws {TypeError} for an empty or over-long name, or a method not made by {@link unary} and its like.
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
    if (Object.hasOwn(callKindOf, String(description?.kind))) continue;
    const words = `service('${name}'): ${method} must be made by unary(), serverStream(), clientStream(), bidi() or notification()`;
    throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', words);
  }
  return Object.freeze({ name, methods, wireName: (method: string) => `${name}.${method}` });
}

/** @throws {TypeError} where something else stands in a codec's place. */
export function checkCodec(what: string, codec: unknown): void {
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
