// SPDX-License-Identifier: MIT
// Fresh processes for the helpers of a pool, one at a time, each without a gap.
import { readFile } from 'node:fs/promises';
import { systemClock } from '../base/clock.ts';
import { SidecallError } from '../base/errors.ts';
import { emitEvent, type OnEvent } from '../base/events.ts';
import { ignore } from '../base/ignore-errors.ts';
import { tuning } from '../base/limits/internal-limits.ts';
import { ranges } from '../base/limits/option-limits.ts';
import { pause } from '../base/pause.ts';
import type { Peer } from '../base/peer.ts';
import type { HelperState } from '../helper/helper-state.ts';
import type { Helper } from '../helper/spawn-helper.ts';
import type { RecycleOptions } from './pool-options.ts';

/** The present process of a helper. */
interface Life {
  readonly pid: number;
  readonly since: number;
  /** Calls of the helper that were begun before this process. */
  readonly before: number;
}

/** Replaces each helper whose process has had its calls, its time or its memory. */
export class Recycler {
  readonly #helpers: readonly Helper[];
  readonly #recycle: RecycleOptions;
  readonly #onEvent: OnEvent | undefined;
  readonly #stopped = new AbortController();
  readonly #lives: Life[];
  readonly #begun: number[];
  readonly #recycled: number[];
  // Numbers of helpers to be replaced, the first one first.
  readonly #wanted = new Set<number>();
  // Numbers of helpers whose process before finishes its calls.
  readonly #leaving = new Set<number>();
  #isBusy = false;

  constructor(helpers: readonly Helper[], recycle: RecycleOptions, onEvent: OnEvent | undefined) {
    this.#helpers = helpers;
    this.#recycle = recycle;
    this.#onEvent = onEvent;
    this.#begun = helpers.map(() => 0);
    this.#recycled = helpers.map(() => 0);
    this.#lives = helpers.map(({ pid }) => lifeOf(pid, 0));
    if (recycle.ageMs !== undefined || recycle.memoryBytes !== undefined) void this.#watch();
  }

  /** A call was begun on the helper of this number. */
  onBegun(member: number, begun: number): void {
    this.#begun[member] = begun;
    const { calls } = this.#recycle;
    if (calls === undefined) return;
    if (begun - this.#lifeOf(member).before >= calls) this.#want(member);
  }

  /** Handlers of aborted calls go on and on in the helper that is this peer. */
  onStalled(peer: Peer | undefined): void {
    const member = this.#helpers.findIndex((helper) => helper.peer.pid === peer?.pid);
    if (member !== -1) this.#want(member);
  }

  /** Processes that have followed the first one of this helper. */
  recycled(member: number): number {
    return this.#recycled[member] as number;
  }

  stop(): void {
    this.#stopped.abort();
  }

  /** The life of the process of now; a restart has begun another one. */
  #lifeOf(member: number): Life {
    const { pid } = this.#helpers[member] as Helper;
    const life = this.#lives[member] as Life;
    if (life.pid === pid) return life;
    const next = lifeOf(pid, this.#begun[member] as number);
    this.#lives[member] = next;
    return next;
  }

  async #watch(): Promise<void> {
    const { ageMs, memoryBytes } = this.#recycle;
    while (!this.#stopped.signal.aborted) {
      await pause(systemClock, tuning.recycleLookMs, this.#stopped.signal, false);
      for (let member = 0; member < this.#helpers.length; member += 1) {
        const { pid, since } = this.#lifeOf(member);
        const isOld = ageMs !== undefined && systemClock.nowMs() - since >= ageMs;
        const isLarge = memoryBytes !== undefined && (await residentBytes(pid)) >= memoryBytes;
        if (isOld || isLarge) this.#want(member);
      }
    }
  }

  #want(member: number): void {
    if (this.#leaving.has(member)) return; // it has a fresh process, beside one that finishes
    this.#wanted.add(member);
    if (!this.#isBusy) void this.#replaceAll();
  }

  async #replaceAll(): Promise<void> {
    this.#isBusy = true;
    for (const member of this.#wanted) {
      if (this.#stopped.signal.aborted) break;
      await this.#replace(member);
      this.#wanted.delete(member);
    }
    this.#isBusy = false;
  }

  /**
   * Resolves when the fresh process has the calls. The one before may finish its own for long,
   * which holds up no other helper.
   */
  async #takeOver(member: number, helper: Helper): Promise<void> {
    const { pid } = helper;
    this.#leaving.add(member);
    const replaced = helper
      .replace({ deadlineMs: ranges.closeDeadlineMs.max })
      .finally(() => this.#leaving.delete(member));
    replaced.catch(ignore);
    const states = helper.states();
    try {
      await Promise.race([replaced, untilFollowed(states, pid)]);
    } finally {
      void states.return?.();
    }
  }

  async #replace(member: number): Promise<void> {
    const helper = this.#helpers[member] as Helper;
    if (helper.state.state !== 'running') return; // a restart begins a fresh process
    try {
      await this.#takeOver(member, helper);
      this.#recycled[member] = this.recycled(member) + 1;
    } catch (reason) {
      if (this.#stopped.signal.aborted) return;
      const error = SidecallError.from(reason);
      emitEvent(this.#onEvent, { type: 'recycle-failed', error, peer: helper.peer });
      await pause(systemClock, tuning.recycleRetryMs, this.#stopped.signal, false);
    }
  }
}

/** Resolves when another process than that of the pid runs, or the helper has ended. */
async function untilFollowed(states: AsyncIterable<HelperState>, pid: number): Promise<void> {
  for await (const state of states) {
    if (state.state === 'running' && state.pid !== pid) return;
  }
}

function lifeOf(pid: number, before: number): Life {
  return { pid, since: systemClock.nowMs(), before };
}

/** Resident memory of a process, by `/proc`; 0 where it has ended. */
async function residentBytes(pid: number): Promise<number> {
  try {
    const [, kibibytes] = /^VmRSS:\s+(\d+) kB$/m.exec(
      await readFile(`/proc/${pid}/status`, 'latin1'),
    ) ?? ['', '0'];
    return Number(kibibytes) * 1024;
  } catch {
    return 0;
  }
}
