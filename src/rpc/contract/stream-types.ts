// SPDX-License-Identifier: MIT
// The streams that callers of streaming methods hold.

/**
 * The responses of a call, to be iterated once. Leaving the loop cancels the call. Iterating
 * rejects with what a unary call would reject with, behind the responses that came before.
 * Responses that were not taken yet hold their sender back.
 */
export interface ServerStream<Res> extends AsyncIterableIterator<Res, undefined>, AsyncDisposable {
  /** Bytes of this call that wait on this side: responses to be taken, requests to be admitted. */
  readonly queuedBytes: number;
  /** The next response. May be called again before the last one came. */
  next(): Promise<IteratorResult<Res, undefined>>;
  /** Cancels the call, quietly; `break` does it. */
  return(): Promise<IteratorResult<Res, undefined>>;
  /**
   * Cancels the call: iterating it rejects with `reason`. Default: `ERR_SIDECALL_CANCELLED`. The
   * handler sees its signal.
   */
  cancel(reason?: unknown): void;
  [Symbol.asyncIterator](): this;
}

/** The requests of a call with one response. */
export interface ClientStream<Req, Res> extends AsyncDisposable {
  /** Bytes that wait to be admitted. */
  readonly queuedBytes: number;
  /**
   * Sends a request. Resolves when it was admitted: until then its bytes must not change.
   * @throws (as rejection) `ERR_SIDECALL_END_OF_STREAM` after `end()` or once the call was
   * answered, `ERR_SIDECALL_ENCODE`, `ERR_SIDECALL_MESSAGE_TOO_LARGE`, or what the call failed
   * with.
   */
  send(request: Req): Promise<void>;
  /** Ends the requests; resolves to the response. A second call has no further effect. */
  end(): Promise<Res>;
  /**
   * Cancels the call: what waits rejects with `reason`. Default: `ERR_SIDECALL_CANCELLED`. The
   * handler sees its signal. Disposing does the same, unless the requests were ended.
   */
  cancel(reason?: unknown): void;
}

/** Both directions of a call. Leaving a loop over the responses cancels it. */
export interface Bidi<Req, Res> extends ServerStream<Res> {
  /** As {@link ClientStream.send}. */
  send(request: Req): Promise<void>;
  /**
   * Ends the requests. Resolves when the peer has all of them; responses go on. A second
   * call has no further effect.
   */
  end(): Promise<void>;
}
