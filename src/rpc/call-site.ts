// SPDX-License-Identifier: MIT
// Errors of calls say which line awaits the call: they are made when a frame arrives or a timer fires, where the stack
// holds nothing of the caller's.
import { setImmediate } from '../clock.ts';
import { SidecallError } from '../errors.ts';

/** The functions that settle a promise. */
export interface Settlers {
  readonly resolve: (value: unknown) => void;
  readonly reject: (reason: unknown) => void;
}

/** Failures of one turn that get the frames. The text of a stack costs some 15 µs, and a session may end with ten thousand calls. */
const perTurnMax = 100;

const ignore = (): void => undefined;
const turn = Promise.resolve();
let doneInTurn = 0;

/**
 * Rejects `promise` with `error`; the stack of `error` gets the frames of the function that awaits the promise, if one does.
 * A call that succeeds pays nothing: V8 follows promises from the running microtask to the function that awaits the last of
 * them, and the chain that leads to `promise` is made here. It goes through `Promise.all`, the one step that V8 follows into a
 * promise that exists already.
 */
export function rejectAtCallSite(
  promise: Promise<unknown>,
  { resolve, reject }: Settlers,
  error: unknown,
): void {
  if (!SidecallError.is(error) || !mayTrace()) {
    promise.catch(ignore); // a failure that is not awaited does not end the process
    return reject(error);
  }
  const failed = turn.then(() => {
    addFrames(error);
    promise.catch(ignore); // as above; a second reaction before this would hide the first one from V8
    throw error;
  });
  function Existing(executor: (onValue: unknown, onReason: unknown) => void): Promise<unknown> {
    executor(resolve, reject);
    return promise;
  }
  Existing.resolve = (value: unknown) => value;
  Promise.all.call(Existing as unknown as PromiseConstructor, [failed]);
}

/** A promise of the same result, whose failure says so too; it need not be awaited. */
export function failingAtCallSite<T>(result: Promise<T>): Promise<T> {
  const promise = new Promise<T>((resolve, reject) => {
    const settlers = { resolve: resolve as Settlers['resolve'], reject };
    result.then(resolve, (error) => rejectAtCallSite(promise, settlers, error));
  });
  return promise;
}

function mayTrace(): boolean {
  if (doneInTurn === 0) {
    setImmediate(() => {
      doneInTurn = 0;
    }).unref();
  }
  doneInTurn += 1;
  return doneInTurn <= perTurnMax;
}

/** The function that awaits the call stands behind `Promise.all`. */
function addFrames(error: Error): void {
  const here: { stack?: string } = {};
  Error.captureStackTrace(here, addFrames);
  const lines = here.stack?.split('\n') ?? [];
  const frames = lines.slice(lines.findIndex((line) => line.includes('Promise.all (index')) + 1);
  const isFound = frames.length > 0 && frames.length < lines.length;
  if (isFound) error.stack = [error.stack, ...frames].join('\n');
}
