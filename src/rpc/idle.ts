// SPDX-License-Identifier: MIT
// Ends a channel on which nothing moves.
import { SidecallError } from '../errors.ts';
import type { ChannelCore } from './channel-core.ts';
import { armDeadline, cancelDeadline, deadlineAfter, type Timed } from './deadline.ts';

/** One timer per channel, which looks at its expiry whether something moved. Keeps no channel alive. */
export class IdleWatch implements Timed {
  timer: NodeJS.Timeout | undefined;
  readonly #core: ChannelCore;
  readonly #timeoutMs: number;
  #seen: number;

  constructor(core: ChannelCore, timeoutMs: number) {
    this.#core = core;
    this.#timeoutMs = timeoutMs;
    this.#seen = core.moved;
    this.#arm();
    const stop = (): void => cancelDeadline(this);
    core.closed.then(stop, stop);
  }

  onDeadline(): void {
    const { moved } = this.#core;
    if (moved === this.#seen) {
      const words = `nothing moved on the channel for ${this.#timeoutMs} ms`;
      this.#core.abort(new SidecallError('ERR_SIDECALL_DEADLINE_EXCEEDED', words));
      return;
    }
    this.#seen = moved;
    this.#arm();
  }

  #arm(): void {
    armDeadline(this, deadlineAfter(this.#timeoutMs));
  }
}
