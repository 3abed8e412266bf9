// SPDX-License-Identifier: MIT
// Rings between two simulated processes: the native ring over memory of this process. A doorbell
// goes through the simulated socket, and a process that dies stops in the middle.
import type { NativeAddon } from '../../addon/addon-api.ts';
import { DrainResult, Register, Ring, RingResult } from '../../shm/ring.ts';
import type { SimulatedSocket } from './simulated-socket.ts';

/** End of a simulated ring, with what a simulation does to it. */
export class SimulatedRing {
  readonly ring: Ring;
  /** No block can be allocated. */
  isMemoryRefused = false;
  readonly #addon: NativeAddon;
  readonly #handle: number;
  readonly #socket: SimulatedSocket;
  readonly #registers: Float64Array;
  #isBellRefused = false;

  /** NOTE: `handle` is one of a pair that `joinOwnRings` has joined. */
  constructor(addon: NativeAddon, handle: number, socket: SimulatedSocket) {
    this.#addon = addon;
    this.#handle = handle;
    this.#socket = socket;
    this.#registers = addon.ringExchange().registers;
    this.ring = new Ring(this.#simulated(), handle, -1, { mayLend: true, mayBorrow: true });
  }

  /** Doorbells fail as if the kernel had no memory for them, until it is called with false. */
  refuseBell(isRefused: boolean): void {
    this.#isBellRefused = isRefused;
    this.#ringDoorbells();
  }

  /** A store of an incorrect process into its own outbox. Does nothing once the ring is closed. */
  overwrite(offset: number, bytes: Uint8Array): void {
    try {
      this.#addon.overwriteOutbox(this.#handle, offset, bytes);
    } catch {
      // The ring is closed, or its outbox is shorter.
    }
  }

  /** Each function of the addon that others can see the effect of, for a process that may die. */
  #simulated(): NativeAddon {
    const { process } = this.#socket;
    const real = this.#addon;
    const simulated = Object.create(real) as NativeAddon;
    const shown = (result: number): number => {
      this.#ringDoorbells();
      return result;
    };
    const lost = RingResult.written; // a dead process learns of nothing
    simulated.joinRing = () => undefined;
    simulated.ringWriteStaged = (ring, bytes, bulk) =>
      process.point() ? shown(real.ringWriteStaged(ring, bytes, bulk)) : lost;
    simulated.ringWriteBytes = (ring, headerBytes, payload, bulk) =>
      process.point() ? shown(real.ringWriteBytes(ring, headerBytes, payload, bulk)) : lost;
    simulated.ringWriteBlock = (ring, staged, offset, bytes) =>
      process.point() ? shown(real.ringWriteBlock(ring, staged, offset, bytes)) : lost;
    simulated.ringPublish = (ring) => (process.point() ? shown(real.ringPublish(ring)) : lost);
    simulated.ringDrain = (ring, recordsMax) => this.#drain(ring, recordsMax);
    simulated.ringTake = (ring, skip, target) =>
      process.point() ? shown(real.ringTake(ring, skip, target)) : lost;
    simulated.ringTakeBlock = (ring) =>
      process.point() ? shown(real.ringTakeBlock(ring)) : RingResult.corrupt;
    simulated.ringPrepareToSleep = (ring) =>
      process.isDead ? lost : shown(real.ringPrepareToSleep(ring));
    simulated.ringAllocate = (ring, bytes) =>
      this.isMemoryRefused ? undefined : real.ringAllocate(ring, bytes);
    return simulated;
  }

  #drain(ring: number, recordsMax: number): number {
    if (this.#socket.process.isDead) return this.#nothing();
    // Without looks: no other process runs meanwhile.
    const left = this.#addon.ringDrain(ring, recordsMax, 0);
    this.#ringDoorbells();
    const isSeen = (this.#registers[Register.records] as number) > 0;
    return isSeen && !this.#socket.process.point() ? this.#nothing() : left;
  }

  #nothing(): number {
    for (const register of [Register.filled, Register.largeBytes, Register.records]) {
      this.#registers[register] = 0;
    }
    return DrainResult.nothing;
  }

  #ringDoorbells(): void {
    const { process } = this.#socket;
    let rung = this.#addon.takeDoorbells(this.#handle, this.#isBellRefused);
    for (; rung > 0; rung -= 1) if (process.point()) this.#socket.ring();
  }
}

/** Rings for both ends of a connection. @throws where the system has no memory for them. */
export function ringPair(
  addon: NativeAddon,
  [near, far]: readonly [SimulatedSocket, SimulatedSocket],
  ringBytes: number,
  blockAreaBytes: number,
): [SimulatedRing, SimulatedRing] {
  addon.ringExchange();
  const handles = [addon.openRing(), addon.openRing()] as const;
  try {
    addon.joinOwnRings(handles[0], handles[1], ringBytes, blockAreaBytes);
  } catch (error) {
    for (const handle of handles) addon.closeRing(handle);
    throw error;
  }
  const pair: [SimulatedRing, SimulatedRing] = [
    new SimulatedRing(addon, handles[0], near),
    new SimulatedRing(addon, handles[1], far),
  ];
  for (const [at, { process }] of [near, far].entries()) {
    process.whenDead(() => pair[at as 0 | 1].ring.close());
  }
  return pair;
}
