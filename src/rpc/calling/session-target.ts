// SPDX-License-Identifier: MIT
// A session as what clients call.
import type { CallOptions } from '../contract/call.ts';
import type { Callable, Caller } from './caller.ts';
import type { CallTarget } from './client.ts';
import { SessionCall, type StreamCall } from './stream-call.ts';

export class SessionTarget implements CallTarget {
  readonly outlivesSessions = false;
  readonly #caller: Caller;

  constructor(caller: Caller) {
    this.#caller = caller;
  }

  call(callable: Callable, value: unknown, options: CallOptions | undefined): Promise<unknown> {
    return this.#caller.call(callable, value, options);
  }

  openStream(callable: Callable, value: unknown, options: CallOptions | undefined): StreamCall {
    return new SessionCall(this.#caller, this.#caller.open(callable, value, options));
  }
}
