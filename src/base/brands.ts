// SPDX-License-Identifier: MIT
// Values by what they are, whatever realm has made them: a DOM in tests (jsdom) replaces globals,
// and `node:vm` has classes of its own, so that `instanceof` misses them. Needs no Node.

const tagOf = Object.getOwnPropertyDescriptor(
  Object.getPrototypeOf(Uint8Array.prototype),
  Symbol.toStringTag,
)?.get as (this: unknown) => string | undefined;
const { toString: textOf } = Object.prototype;

/** True: a `Uint8Array`, and so a `Buffer`. */
export function isBytes(value: unknown): value is Uint8Array {
  // The getter looks at an internal slot: no other object has it. V8 inlines it, not `instanceof`.
  return tagOf.call(value) === 'Uint8Array';
}

/** True: an error, also one of the DOM. */
export function isError(value: unknown): value is Error {
  return value instanceof Error || /^\[object (Error|DOMException)\]$/.test(textOf.call(value));
}

/** True: a promise, or what `await` takes for one. */
export function isPromise(value: unknown): value is Promise<unknown> {
  return value instanceof Promise || typeof (value as Promise<unknown> | null)?.then === 'function';
}

/** The member of a client for a method: one named `then` would make a promise of the client. */
export function clientMember(method: string): string {
  return method === 'then' ? 'then$' : method;
}

export function isDate(value: unknown): value is Date {
  return value instanceof Date || textOf.call(value) === '[object Date]';
}

export function isUrl(value: unknown): value is URL {
  return value instanceof URL || textOf.call(value) === '[object URL]';
}

/** True: the prototype of the object is that of plain objects, or it has none. */
export function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === Object.prototype || prototype === null) return true;
  // The end of the chain, as `Object.prototype` is in each realm.
  return Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype as object, 'valueOf');
}

/** Signals of this realm that follow those of another one. */
const followers = new WeakMap<object, AbortSignal>();

/** The signal, or one of this realm that follows it; undefined: it is no signal. */
export function signalOf(value: unknown): AbortSignal | undefined {
  if (value instanceof AbortSignal) return value;
  if (textOf.call(value) !== '[object AbortSignal]') return undefined;
  const signal = value as AbortSignal;
  const known = followers.get(signal);
  if (known !== undefined) return known;
  const following = new AbortController();
  const follow = (): void => following.abort(signal.reason);
  if (signal.aborted) follow();
  else signal.addEventListener('abort', follow, { once: true });
  followers.set(signal, following.signal);
  return following.signal;
}
