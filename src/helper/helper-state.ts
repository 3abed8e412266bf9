// SPDX-License-Identifier: MIT
// The states of a helper.
import type { SidecallError } from '../base/errors.ts';
import type { FollowedState } from '../lasting/followed-state.ts';
import type { Session } from '../rpc/session/session.ts';
import type { HelperExit } from './helper-errors.ts';

/** The state of a helper. `restarts` counts the starts after the first, ever. */
export type HelperState =
  /** A process runs, and its session is open. */
  | {
      readonly state: 'running';
      readonly pid: number;
      readonly session: Session;
      readonly restarts: number;
    }
  /**
   * The session is over because of `error`. The process gets a moment to end by
   * itself, and is then killed.
   */
  | { readonly state: 'ending'; readonly error: SidecallError; readonly restarts: number }
  /**
   * The process ended, or did not start, for `error`; the next is started once `pauseMs` have
   * passed.
   */
  | {
      readonly state: 'restarting';
      readonly error: SidecallError;
      readonly pauseMs: number;
      readonly restarts: number;
    }
  /** `stop()` was called. */
  | { readonly state: 'stopping'; readonly restarts: number }
  /**
   * The helper has ended for good. `error`: it ended and is not restarted, or is a crash loop;
   * undefined where it was stopped.
   */
  | {
      readonly state: 'ended';
      readonly exit: HelperExit;
      readonly error: SidecallError | undefined;
      readonly restarts: number;
    };

/** The present state of a helper, and its followers. */
export type HelperStates = FollowedState<HelperState>;

/** The helper has ended for good. */
export function isHelperEnd({ state }: HelperState): boolean {
  return state === 'ended';
}
