// The record of what simulated handlers saw and simulated callers were told, to be compared.
import { SidecallError } from '../../src/base/errors.ts';

/** How a call ended for its caller. */
interface CallEnd {
  readonly what: string;
  /** May be repeated: its handler may see it more than once. */
  readonly isRepeated: boolean;
  readonly error: unknown;
}

/** One record for all processes of a run. NOTE: processes that are dead write nothing into it. */
export class Ledger {
  /** Violations, in words. */
  readonly faults: string[] = [];
  readonly #seen = new Map<number, number>();
  readonly #ends = new Map<number, CallEnd>();
  /** Notifications of one end: handled so far, in the order of the calls. */
  readonly #handled = new Map<string, number[]>();
  /** Notifications whose promise resolved. */
  readonly #admitted = new Map<string, number[]>();

  fault(text: string): void {
    if (this.faults.length < 20) this.faults.push(text);
  }

  /** A handler has begun with a call. */
  onSeen(id: number): void {
    this.#seen.set(id, (this.#seen.get(id) ?? 0) + 1);
  }

  /** A call has ended: `error` undefined with its answer. */
  onEnd(id: number, what: string, error: unknown, isRepeated = false): void {
    if (this.#ends.has(id)) this.fault(`${what} (${id}) has settled twice`);
    this.#ends.set(id, { what, error, isRepeated });
  }

  /** A notification was handled at the end `end`. */
  onHandled(end: string, id: number): void {
    const handled = this.#handled.get(end) ?? [];
    if (handled.length > 0 && id <= (handled.at(-1) as number)) {
      this.fault(`notification ${id} was handled at ${end} behind ${handled.at(-1)}`);
    }
    handled.push(id);
    this.#handled.set(end, handled);
  }

  /** The promise of a notification to the end `end` has resolved. */
  onAdmitted(end: string, id: number): void {
    const admitted = this.#admitted.get(end) ?? [];
    admitted.push(id);
    this.#admitted.set(end, admitted);
  }

  /** Compares what callers were told with what handlers saw, when nothing is under way any more. */
  checkCalls(): void {
    for (const [id, { what, error, isRepeated }] of this.#ends) {
      const seen = this.#seen.get(id) ?? 0;
      if (seen > 1 && !isRepeated) this.fault(`${what} (${id}) was handled ${seen} times`);
      if (error === undefined && seen === 0) this.fault(`${what} (${id}) was answered by nobody`);
      if (!SidecallError.is(error)) continue;
      const told = `${what} (${id}) was told delivered: '${error.delivered}' (${error.message})`;
      if (error.delivered === 'no' && seen > 0 && !isRepeated) {
        this.fault(`${told}, and a handler saw it`);
      }
      if (error.delivered === 'yes' && seen === 0 && error.code !== 'ERR_SIDECALL_RPC') {
        this.fault(`${told}, and no handler saw it`);
      }
    }
    for (const [id, seen] of this.#seen) {
      if (seen > 1 && this.#ends.get(id)?.isRepeated !== true) {
        this.fault(`call ${id} was handled ${seen} times`);
      }
    }
  }

  /** Each notification that was admitted towards `end` was handled: its session closed in order. */
  checkAdmitted(end: string): void {
    const handled = new Set(this.#handled.get(end));
    const lost = (this.#admitted.get(end) ?? []).filter((id) => !handled.has(id));
    if (lost.length > 0) this.fault(`admitted notifications to ${end} were lost: ${lost}`);
  }
}
