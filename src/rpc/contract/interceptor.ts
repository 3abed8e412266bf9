// SPDX-License-Identifier: MIT
// Functions around calls, of one type for both sides.
import { nodeError } from '../../base/misuse.ts';
import type { CallContext } from './call-context.ts';
import type { CallOptions } from './call-options.ts';
import type { MethodKind } from './method-types.ts';

/** A call on its way, as an interceptor sees it. */
export interface InterceptedCall {
  /** Wire name of the method: `Indexer.add`. */
  readonly method: string;
  readonly kind: MethodKind;
  readonly side: 'caller' | 'handler';
  /**
   * The request; requests of a stream as something to iterate, or undefined where they will be
   * sent.
   */
  readonly request: unknown;
  /** The options of the caller. On the caller's side only. */
  readonly options: CallOptions | undefined;
  /** The context of the handler. On the handler's side only. */
  readonly ctx: CallContext | undefined;
}

/**
 * Around a call: looks at it or changes it (`next({ ...call, request })`), and returns what `next`
 * returned or something of the same kind: a promise, a stream, or what a handler gives. An error
 * that it throws fails the call, on the handler's side like an error of the handler.
 */
export type Interceptor = (
  call: InterceptedCall,
  next: (call: InterceptedCall) => unknown,
) => unknown;

/** @throws {TypeError} where something else than a list of functions is given. */
export function checkInterceptors(
  what: string,
  interceptors: readonly Interceptor[] | undefined,
): readonly Interceptor[] {
  if (interceptors === undefined) return [];
  const isList = Array.isArray(interceptors);
  if (isList && interceptors.every((interceptor) => typeof interceptor === 'function')) {
    return interceptors;
  }
  const text = `${what}: interceptors must be a list of functions`;
  throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', text);
}

/** The first of the list is the outermost. */
export function around(
  interceptors: readonly Interceptor[],
  call: (call: InterceptedCall) => unknown,
): (call: InterceptedCall) => unknown {
  return interceptors.reduceRight<(call: InterceptedCall) => unknown>(
    (next, interceptor) => (intercepted) => interceptor(intercepted, next),
    call,
  );
}
