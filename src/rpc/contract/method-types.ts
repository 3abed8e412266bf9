// SPDX-License-Identifier: MIT
// The types of methods, and of the functions that call and serve them.

import type { CallContext } from './call-context.ts';
import type { CallOptions } from './call-options.ts';
import type { Codec } from './codec.ts';
import type { IfJson } from './jsonable.ts';
import type { Bidi, ClientStream, ServerStream } from './stream-types.ts';

/** The settings of a method. */
export interface MethodSettings {
  /**
   * `bulk`: its messages, in both directions, go behind those of others, and never more than two
   * fragments of them are on the way. Default `normal`; messages above 64 KiB are bulk in any case.
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
 * The members of all methods but notifications. `Req` and `Res` are what arrives; `ReqIn` and
 * `ResIn` what may be sent, where a codec takes more.
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

/** The kinds of methods. */
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

/**
 * A method whose kind and types are known at run time only. `untyped` exists for the
 * compiler and is never set.
 */
export type UntypedMethod = Method & { readonly untyped: true };

/** Methods by their names. */
export type Methods = { readonly [name: string]: Method };

/** A named set of methods, as {@link service} makes it. */
export interface Service<M extends Methods = Methods> {
  readonly name: string;
  readonly methods: M;
  /** Name of a method on the wire: `Indexer.add`. */
  wireName(method: keyof M & string): string;
  /** A description of its messages for tools, if it has descriptors. */
  readonly descriptor?: (() => unknown) | undefined;
  /** Its `.proto` files as `FileDescriptorProto` messages, if they are known as such. */
  readonly fileDescriptors?: (() => readonly Uint8Array[]) | undefined;
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

/**
 * The function of a method with a stream of requests: called with an iterable, or without one, to
 * send requests one by one.
 */
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
export interface MethodsByKind<Req, Res, ReqIn, ResIn> {
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

/** The member of a client for a method of this name. */
export type ClientMember<Name> = Name extends 'then' ? 'then$' : Name;

/**
 * The functions that a caller gets for a contract. A method named `then` is the function `then$`:
 * an object with a function `then` is taken for a promise, by `await` and by async functions.
 */
export type Client<M extends Methods> = {
  readonly [Name in keyof M as ClientMember<Name>]: M[Name] extends UntypedMethod
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

/**
 * Responses of a stream, as its handler gives them: an async generator, or anything to iterate but
 * a text.
 */
export type Responses<Res> = AsyncIterable<Res> | (Iterable<Res> & object);

/** The functions that serve a contract. */
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
