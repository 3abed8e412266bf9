// SPDX-License-Identifier: MIT
// The situations that simulated runs have reached: each type of frame, in each state of the call
// or session that it arrives in.
import type { SessionCore } from '../../rpc/session/session-core.ts';
import { emptyHeader, FrameFlag, FrameType, readHeader } from '../../wire/frame-header.ts';
import { frameTypeName } from '../../wire/frame-text.ts';

/** States of calls at the side that made them, and at the side that serves them. */
const callerStates = ['open', 'given-up', 'over'];
const calleeStates = ['waiting', 'open', 'cancelled', 'over'];
const sessionStates = ['open', 'draining'];

const { open, message, fragment, headers, end, reset, credit } = FrameType;
const { method, goaway, ping, pong, clock } = FrameType;

/** Counts of situations, each `the frame, the side, the state`. */
export class Coverage {
  readonly counts = new Map<string, number>();

  /** A frame is about to be handed to the session. */
  note(core: SessionCore, headerBytes: Uint8Array): void {
    const header = emptyHeader();
    try {
      readHeader(headerBytes, header);
    } catch {
      return this.#add('an invalid frame');
    }
    const { type, slot, generation, flags } = header;
    const name = frameTypeName(type);
    if (generation === 0) return this.#add(`${name}, session, ${core.state}`);
    const isTheirs = (flags & FrameFlag.fromOpener) !== 0;
    const half = isTheirs ? core.callee : core.caller;
    const state = half.stateOf(slot, generation) ?? 'over';
    this.#add(`${name}, ${isTheirs ? 'callee' : 'caller'}, ${state}`);
  }

  /** Adds what another run has reached. */
  addAll(counts: Iterable<readonly [string, number]>): void {
    for (const [situation, count] of counts) {
      this.counts.set(situation, (this.counts.get(situation) ?? 0) + count);
    }
  }

  #add(situation: string): void {
    this.counts.set(situation, (this.counts.get(situation) ?? 0) + 1);
  }
}

/** Each situation that frames of correct peers may lead to. */
export function situations(): string[] {
  const ofCaller = crossed(
    [message, fragment, headers, end, reset, credit],
    'caller',
    callerStates,
  );
  // A call is unknown before its open arrives, and after its last frame.
  const ofCallee = crossed([message, fragment, end, reset, credit], 'callee', calleeStates);
  const ofSession = crossed([method, credit, goaway, ping, pong, clock], 'session', sessionStates);
  return [`${frameTypeName(open)}, callee, over`, ...ofCaller, ...ofCallee, ...ofSession];
}

function crossed(types: readonly number[], side: string, states: readonly string[]): string[] {
  return types.flatMap((type) =>
    states.map((state) => `${frameTypeName(type)}, ${side}, ${state}`),
  );
}
