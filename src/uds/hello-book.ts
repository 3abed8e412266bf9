// SPDX-License-Identifier: MIT
// Connections that are not sessions yet: bounded, and the silent ones go first.
import { nowMs } from '../clock.ts';
import { SidecallError } from '../errors.ts';
import { fixed } from '../limits.ts';

/** One connection on its way. */
export interface HelloTicket {
  /** Aborted when it has to make room, or the listener closes. */
  readonly signal: AbortSignal;
  /** Instant of its last byte, or of its accept. */
  silentSince: () => number;
}

export class HelloBook {
  readonly #max: number;
  readonly #open = new Map<HelloTicket, AbortController>();

  constructor(max: number) {
    this.#max = max;
  }

  get size(): number {
    return this.#open.size;
  }

  /** Enters a connection. Where there is no room, the oldest silent one goes, else the newcomer. */
  enter(): HelloTicket {
    const controller = new AbortController();
    const now = nowMs();
    const ticket = { signal: controller.signal, silentSince: () => now };
    if (this.#open.size >= this.#max && !this.#dropSilent(now)) {
      controller.abort(full(this.#max));
      return ticket;
    }
    this.#open.set(ticket, controller);
    return ticket;
  }

  leave(ticket: HelloTicket): void {
    this.#open.delete(ticket);
  }

  /** Ends all of them. */
  abort(reason: SidecallError): void {
    for (const controller of this.#open.values()) controller.abort(reason);
    this.#open.clear();
  }

  #dropSilent(now: number): boolean {
    for (const [ticket, controller] of this.#open) {
      if (now - ticket.silentSince() < fixed.quietHelloMs) continue;
      this.#open.delete(ticket);
      controller.abort(full(this.#max));
      return true;
    }
    return false;
  }
}

function full(max: number): SidecallError {
  const words = `${max} connections are in their hello already`;
  return new SidecallError('ERR_SIDECALL_LIMIT_CONNECTIONS', words);
}
