// SPDX-License-Identifier: MIT
// The functions that a page gets for a contract.
import { clientMember } from '../../base/brands.ts';
import { checkInteger, checkKeys } from '../../base/misuse.ts';
import type {
  BidiMethod,
  ClientMember,
  ClientStreamMethod,
  MethodKind,
  Methods,
  NotificationMethod,
  Requests,
  ServerStreamMethod,
  Service,
  UnaryMethod,
  UntypedMethod,
} from '../../rpc/contract/method-types.ts';
import {
  cancelled,
  ignore,
  PageCall,
  type PageCallOptions,
  type PageConnection,
  timeRange,
} from './page-call.ts';

/** Options of `client()`. */
export interface PageClientOptions {
  /** `timeoutMs` of calls that do not say otherwise. Default: none. */
  readonly timeoutMs?: number | undefined;
}

/**
 * Responses of a call. Leaving the loop cancels the call; responses that were not taken
 * yet hold the sender back.
 */
export interface PageStream<Res> extends AsyncIterableIterator<Res, undefined>, AsyncDisposable {
  /** Iterating it rejects with `reason`. Default: `ERR_SIDECALL_CANCELLED`. */
  cancel(reason?: unknown): void;
}

/** Requests of a call with one response. */
export interface PageClientStream<Req, Res> extends AsyncDisposable {
  /** Resolves when it was sent, which waits until the handler has taken earlier ones. */
  send(request: Req): Promise<void>;
  /** Ends the requests. Resolves to the response. */
  end(): Promise<Res>;
  cancel(reason?: unknown): void;
}

/** Requests and responses, each side at its own pace. */
export interface PageBidi<Req, Res> extends PageStream<Res> {
  send(request: Req): Promise<void>;
  end(): Promise<void>;
}

// A request that may be undefined may be left out.
type Arguments<Req> = undefined extends Req
  ? [request?: Req, options?: PageCallOptions]
  : [request: Req, options?: PageCallOptions];

/** The functions that a page gets for a contract: those of a process, with what a page can say. */
export type PageClient<M extends Methods> = {
  readonly [Name in keyof M as ClientMember<Name>]: M[Name] extends UntypedMethod
    ? // biome-ignore lint/suspicious/noExplicitAny: nothing is known
      (...args: any[]) => any
    : M[Name] extends UnaryMethod<infer _, infer Res, infer Req, infer _>
      ? (...args: Arguments<Req>) => Promise<Res>
      : M[Name] extends ServerStreamMethod<infer _, infer Res, infer Req, infer _>
        ? (...args: Arguments<Req>) => PageStream<Res>
        : M[Name] extends ClientStreamMethod<infer _, infer Res, infer Req, infer _>
          ? {
              (options?: PageCallOptions): PageClientStream<Req, Res>;
              (requests: Requests<Req>, options?: PageCallOptions): Promise<Res>;
            }
          : M[Name] extends BidiMethod<infer _, infer Res, infer Req, infer _>
            ? {
                (options?: PageCallOptions): PageBidi<Req, Res>;
                (requests: Requests<Req>, options?: PageCallOptions): PageStream<Res>;
              }
            : M[Name] extends NotificationMethod<infer _, infer Req>
              ? (...args: Arguments<Req>) => Promise<void>
              : never;
};

/** One function per method. */
export function clientOver<M extends Methods>(
  line: PageConnection,
  service: Service<M>,
  clientOptions: PageClientOptions = {},
): PageClient<M> {
  checkKeys('client()', clientOptions, ['timeoutMs']);
  const { timeoutMs } = clientOptions;
  if (timeoutMs !== undefined) checkInteger('timeoutMs', timeoutMs, timeRange);
  const client: Record<string, unknown> = Object.create(null);
  for (const [member, { kind }] of Object.entries(service.methods)) {
    const begin = (value: unknown, options: PageCallOptions | undefined): PageCall => {
      const complete = { ...options, timeoutMs: options?.timeoutMs ?? timeoutMs };
      return new PageCall(line, service.wireName(member), kind, value, complete);
    };
    client[clientMember(member)] = functions[kind](begin);
  }
  return Object.freeze(client) as PageClient<M>;
}

type Begin = (value: unknown, options: PageCallOptions | undefined) => PageCall;
type Single = (value: unknown, options?: PageCallOptions) => unknown;

const functions: { readonly [Kind in MethodKind]: (begin: Begin) => Single } = {
  unary: (begin) => (value, options) => begin(value, options).result,
  notification: (begin) => (value, options) => begin(value, options).result,
  serverStream: (begin) => (value, options) => streamOf(begin(value, options)),
  clientStream: (begin) => (first, second) => {
    if (!isRequests(first)) return clientStreamOf(begin(undefined, first as PageCallOptions));
    const call = begin(undefined, second);
    void pump(call, first);
    return call.result;
  },
  bidi: (begin) => (first, second) => {
    if (!isRequests(first)) {
      const call = begin(undefined, first as PageCallOptions);
      return Object.assign(streamOf(call), {
        send: (request: unknown) => call.send(request),
        end: async () => call.endRequests(),
      });
    }
    const call = begin(undefined, second);
    void pump(call, first);
    return streamOf(call);
  },
};

// `Symbol.asyncDispose`, or a symbol of our own where the engine of the page has none.
const disposal: typeof Symbol.asyncDispose = Symbol.asyncDispose ?? Symbol('asyncDispose');

function streamOf(call: PageCall): PageStream<unknown> {
  return {
    next: () => call.next(),
    return: async () => {
      call.cancelQuietly();
      return { done: true, value: undefined };
    },
    cancel: (reason) => call.cancel(reason ?? cancelled()),
    [Symbol.asyncIterator]() {
      return this;
    },
    [disposal]: async () => call.cancelQuietly(),
  };
}

function clientStreamOf(call: PageCall): PageClientStream<unknown, unknown> {
  return {
    send: (request) => call.send(request),
    end: () => {
      call.endRequests();
      return call.result;
    },
    cancel: (reason) => call.cancel(reason ?? cancelled()),
    [disposal]: async () => call.cancelQuietly(),
  };
}

/**
 * Sends the values of an iterable at the pace of the handler. An error of the iterable cancels the
 * call; the end of the call ends the iteration.
 */
async function pump(call: PageCall, requests: Requests<unknown>): Promise<void> {
  const iterator =
    Symbol.asyncIterator in requests
      ? requests[Symbol.asyncIterator]()
      : (requests as Iterable<unknown>)[Symbol.iterator]();
  const over = call.over.then(() => undefined);
  try {
    for (;;) {
      const step = await Promise.race([iterator.next(), over]);
      if (step === undefined) {
        void Promise.resolve(iterator.return?.()).catch(ignore);
        return;
      }
      if (step.done === true) return call.endRequests();
      await call.send(step.value);
    }
  } catch (error) {
    call.cancel(error);
  }
}

function isRequests(value: unknown): value is Requests<unknown> {
  if (typeof value !== 'object' || value === null) return false;
  return Symbol.asyncIterator in value || Symbol.iterator in value;
}
