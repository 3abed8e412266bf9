// Checks of sessions from outside: bounds while they work, and counters at rest.
import { wireLimits } from '../../src/base/limits/wire-limits.ts';
import { type ReceiveCredit, Window } from '../../src/rpc/sending/credit.ts';
import type { Session } from '../../src/rpc/session/session.ts';
import type { ConnectedEnd } from '../../src/testing/simulation/connection.ts';

/** No call, byte, block or lease is left, and no window is charged. */
export function isAtRest(session: Session): boolean {
  const { calls, handlers, queuedBytes, blocks, leases, waits, windows } = session.stats();
  const counts = [
    calls.open,
    calls.waiting,
    handlers.running,
    queuedBytes,
    blocks.inUse,
    leases.held,
    ...Object.values(windows).map(({ held }) => held),
    ...Object.values(waits),
  ];
  return counts.every((count) => count === 0);
}

/**
 * Credit has come back: what the other side owes is less than a quarter of a window, until it is
 * granted. NOTE: the limits of both ends are the same.
 */
export function hasCredit({ session, core }: ConnectedEnd): boolean {
  if (session.state === 'closed') return true;
  const { sessionWindowBytes, streamWindowBytes } = core.shared.own;
  return Object.entries(session.stats().windows).every(([name, { left }]) => {
    const size = name === 'notifications' ? streamWindowBytes : sessionWindowBytes;
    return left <= size && left > (size * 3) / 4 - 1;
  });
}

/** The bounds of one session, whatever its peer does. */
export class BoundCheck {
  readonly #ends: () => readonly ConnectedEnd[];
  readonly #fault: (text: string) => void;

  constructor(ends: () => readonly ConnectedEnd[], fault: (text: string) => void) {
    this.#ends = ends;
    this.#fault = fault;
  }

  check(): void {
    for (const { session, core, process } of this.#ends()) {
      if (process.isDead || session.state === 'closed') continue;
      // Not by stats(), which takes longer: the check follows each step.
      const { own, sendQueue, receiveCredit } = core.shared;
      const { receiveMaxBytes, streamsMax, sendQueueMaxBytes, sessionWindowBytes } = own;
      const messageBytes = core.shared.remote.receiveMaxBytes + wireLimits.messageOverheadBytes;
      this.#atMost(process.name, 'handlers', core.callee.running, streamsMax + extraSlots);
      // Answers are always taken, and are bounded by their window; beside them stand two queues.
      // Each of the three has one message beyond its bound. The limits of both ends are the same.
      const answersMax = sessionWindowBytes + messageBytes;
      this.#atMost(process.name, 'bytes of answers', sendQueue.messages.answerBytes, answersMax);
      const queuedMax = 2 * (sendQueueMaxBytes + messageBytes) + answersMax;
      this.#atMost(process.name, 'queued bytes', sendQueue.queuedBytes, queuedMax);
      for (const [name, window] of Object.entries(Window)) {
        const { held } = receiveCredit[window] as ReceiveCredit;
        this.#atMost(process.name, `window of ${name}`, held, sessionWindowBytes + receiveMaxBytes);
      }
    }
  }

  #atMost(name: string, what: string, count: number, max: number): void {
    if (count > max) this.#fault(`${name} holds ${count} ${what}, at most ${max} are allowed`);
  }
}

/** Of the built-in services. */
const extraSlots = 4;
