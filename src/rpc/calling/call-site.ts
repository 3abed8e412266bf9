// SPDX-License-Identifier: MIT
// Adds the line that awaits a call to the stack of its error. The error is made when a frame
// arrives or a timer fires, where the stack holds no frame of the caller.

import { systemClock } from '../../base/clock.ts';
import { SidecallError } from '../../base/errors.ts';
import { ignore } from '../../base/ignore-errors.ts';

/** The functions that settle a promise. */
export interface Settlers {
  readonly resolve: (value: unknown) => void;
  readonly reject: (reason: unknown) => void;
}

/**
 * Most failures of one turn that get the frames. The text of a stack costs some 15 µs, and a
 * session may end with ten thousand calls.
 */
const perTurnMax = 100;

// `Promise.all` as it is at load time, as in clock.ts: a replacement may not support
// promises that exist already.
const { all } = Promise;
const turn = Promise.resolve();
// Stacks as they were before frames were added: an error that several calls fail with has those of
// the last one.
const stacks = new WeakMap<object, unknown>();
let doneInTurn = 0;

/**
 * Rejects `promise` with `error`; the stack of `error` gets the frames of the function that awaits
 * the promise, if one does. A call that succeeds pays nothing: V8 follows promises from the running
 * microtask to the function that awaits the last of them, and the chain that leads to `promise` is
 * made here. It goes through `Promise.all`, the one step that V8 follows into a promise that exists
 * already. Where the chain cannot be made the error is as it was.
 */
export function rejectAtCallSite(
  promise: Promise<unknown>,
  { resolve, reject }: Settlers,
  error: unknown,
): void {
  const settle = (): void => {
    promise.catch(ignore); // a failure that is not awaited does not end the process
    reject(error);
  };
  if (!SidecallError.is(error)) return settle();
  if (!mayTrace()) return void turn.then(settle); // a turn of microtasks later, too: failures keep their order
  const traced = turn.then(() => {
    addFrames(error);
    settle(); // after that: a second reaction to the promise would hide the first one from V8
  });
  function Existing(executor: (onValue: unknown, onReason: unknown) => void): Promise<unknown> {
    executor(resolve, reject);
    return promise;
  }
  Existing.resolve = (value: unknown) => value;
  try {
    all.call(Existing as unknown as PromiseConstructor, [traced]);
  } catch {
    // `then` of promises was replaced by something else
  }
}

/**
 * A promise with the outcome of `result`; its error gets the frames, too. A rejection that
 * is not awaited is dropped.
 */
export function failingAtCallSite<T>(result: Promise<T>): Promise<T> {
  const promise = new Promise<T>((resolve, reject) => {
    const settlers = { resolve: resolve as Settlers['resolve'], reject };
    result.then(resolve, (error) => rejectAtCallSite(promise, settlers, error));
  });
  return promise;
}

function mayTrace(): boolean {
  if (doneInTurn === 0) {
    systemClock.setImmediate(() => {
      doneInTurn = 0;
    });
  }
  doneInTurn += 1;
  return doneInTurn <= perTurnMax;
}

/**
 * Adds the frames of the function that awaits the call, which follow `Promise.all` in the stack.
 * Never throws: an error may be frozen, and a program may format stacks itself.
 */
function addFrames(error: Error): void {
  try {
    const here: { stack?: unknown } = {};
    Error.captureStackTrace(here, addFrames);
    if (typeof here.stack !== 'string') return;
    const lines = here.stack.split('\n');
    const allAt = lines.findIndex((line) => line.includes('Promise.all (index'));
    const frames = lines.slice(allAt + 1);
    if (allAt === -1 || frames.length === 0) return;
    if (!stacks.has(error)) stacks.set(error, error.stack);
    error.stack = [stacks.get(error), ...frames].join('\n');
  } catch {
    // the stack stays as it was
  }
}
