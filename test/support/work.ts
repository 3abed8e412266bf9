// The helper of tests that need several processes which work on items.
import { notification, service, unary } from '../../src/rpc/contract/service.ts';
import { programPath } from './programs.ts';

export const workerProgram = programPath('worker.mjs');

export interface WorkAnswer {
  readonly id: number;
  readonly name: string;
  readonly pid: number;
}

export const Work = service('Work', {
  /** Answers after `ms`, or once the file `until` exists. */
  take: unary<{ id: number; ms?: number; until?: string }, WorkAnswer>({ idempotent: true }),
  hang: unary<void, void>(),
  /** Works as long. */
  note: notification<number>(),
  /** Its `take` takes this many times as long from now on. */
  slow: unary<number, void>(),
  /** The advice on polling that it was started with, and whether it is still there. */
  polling: unary<void, { advised?: string; left?: string }>(),
  /** Keeps as many mebibytes more. */
  grow: unary<number, void>(),
});
