// SPDX-License-Identifier: MIT
// A session as what clients call.

import type { CallOptions } from '../contract/call-options.ts';
import type { CallTarget, MethodCall, StreamCall } from './call-target.ts';
import type { Caller } from './caller.ts';
import { SessionCall } from './stream-call.ts';

export class SessionTarget implements CallTarget {
  readonly outlivesSessions = false;
  readonly #caller: Caller;

  constructor(caller: Caller) {
    this.#caller = caller;
  }

  call(callable: MethodCall, value: unknown, options: CallOptions | undefined): Promise<unknown> {
    return this.#caller.call(callable, value, options);
  }

  openStream(callable: MethodCall, value: unknown, options: CallOptions | undefined): StreamCall {
    return new SessionCall(this.#caller, this.#caller.open(callable, value, options));
  }
}
