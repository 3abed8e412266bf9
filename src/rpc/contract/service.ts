// SPDX-License-Identifier: MIT
// A contract that both processes import: names, kinds and codecs of methods, and their types.

import { Buffer } from 'node:buffer';
import { clientMember } from '../../base/brands.ts';
import { wireLimits } from '../../base/limits/wire-limits.ts';
import { checkBoolean, checkKeys, nodeError } from '../../base/misuse.ts';
import { CallKind } from '../../wire/frame-header.ts';
import type { Codec } from './codec.ts';
import { json } from './json.ts';
import type { IfJson } from './jsonable.ts';
import type {
  MethodBase,
  MethodKind,
  MethodMaker,
  MethodOptions,
  Methods,
  MethodsByKind,
  NotificationMethod,
  Service,
} from './method-types.ts';

/** The names of the package's own services begin with it. */
export const builtInPrefix = 'sidecall.';

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
 * @example
 * ```ts
 * import { bytes, service, unary } from 'sidecall';
 *
 * const Files = service('Files', {
 *   size: unary<{ path: string }, number>({ idempotent: true }),
 *   read: unary({ response: bytes }),
 * });
 * ```
 */
export const unary = maker('unary');

/**
 * A method with one request and any number of responses. The handler is an async generator (or
 * returns something to iterate): each `yield` waits until the caller's window has room.
 * @throws {TypeError} for unknown options.
 * @example
 * ```ts
 * import { type Session, serverStream, service } from 'sidecall';
 *
 * const Log = service('Log', { lines: serverStream<{ path: string }, string>() });
 *
 * async function print(session: Session): Promise<void> {
 *   for await (const line of session.client(Log).lines({ path: 'a.log' })) console.log(line);
 * }
 * ```
 */
export const serverStream = maker('serverStream');

/**
 * A method with any number of requests and one response. The handler iterates the requests; what it
 * has taken makes room for more.
 * @throws {TypeError} for unknown options.
 * @example
 * ```ts
 * import { clientStream, type Session, service } from 'sidecall';
 *
 * const Sums = service('Sums', { add: clientStream<number, number>() });
 *
 * async function sum(session: Session, numbers: number[]): Promise<number> {
 *   const call = session.client(Sums).add();
 *   for (const number of numbers) await call.send(number);
 *   return call.end();
 * }
 * ```
 */
export const clientStream = maker('clientStream');

/**
 * A method with any number of requests and responses, each side at its own pace.
 * @throws {TypeError} for unknown options.
 * @example
 * ```ts
 * import { bidi, type Session, service } from 'sidecall';
 *
 * const Echo = service('Echo', { say: bidi<string, string>() });
 *
 * async function echo(session: Session): Promise<void> {
 *   const call = session.client(Echo).say();
 *   await call.send('hello');
 *   await call.end();
 *   for await (const answer of call) console.log(answer);
 * }
 * ```
 */
export const bidi = maker('bidi');

/**
 * A method whose caller wants no answer. All notifications of a session are one stream: their
 * handlers are started in the order of the calls, and each holds its place in the stream's window
 * until its handler settled, so that the promise of a call waits for slow ones. It resolves when
 * the message was admitted.
 * @throws {TypeError} for unknown options.
 * @example
 * ```ts
 * import { notification, type Session, service } from 'sidecall';
 *
 * const Watch = service('Watch', { changed: notification<{ path: string }>() });
 *
 * async function tell(session: Session): Promise<void> {
 *   await session.client(Watch).changed({ path: 'a.txt' }); // admitted, not answered
 * }
 * ```
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
  const text = `${what}: priority must be normal or bulk, got '${String(priority)}'`;
  throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
}

/**
 * Describes a service once for both processes.
 * @param name wire name of the service; method names are appended with a dot.
 * @param methods by their names, which a client has as functions; `then` is its function `then$`.
 * @throws {TypeError} for an empty or over-long name, or a method not made by {@link unary} and its
 * like.
 * @example
 * ```ts
 * import { bidi, notification, serverStream, service, unary } from 'sidecall';
 *
 * export const Indexer = service('Indexer', {
 *   count: unary<{ text: string }, { words: number }>(),
 *   lines: serverStream<{ path: string }, string>(),
 *   chat: bidi<string, string>(),
 *   touched: notification<{ path: string }>(),
 * });
 * ```
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
    const member = clientMember(method);
    if (member !== method && Object.hasOwn(methods, member)) {
      const text = `service('${name}'): ${method} and ${member} would be one function of a client, ${member}`;
      throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
    }
    if (Object.hasOwn(callKindOf, String(description?.kind))) continue;
    const text = `service('${name}'): ${method} must be made by unary(), serverStream(), clientStream(), bidi() or notification()`;
    throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
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
  if (bytes > 0 && bytes <= wireLimits.methodNameMaxBytes) return;
  const text = `a method name has 1 to ${wireLimits.methodNameMaxBytes} bytes, '${name}' has ${bytes}`;
  throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
}
