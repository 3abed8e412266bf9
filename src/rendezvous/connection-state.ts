// SPDX-License-Identifier: MIT
// The states of a connection that is made again.
import type { SidecallError } from '../base/errors.ts';
import type { Session } from '../rpc/session/session.ts';

/** The state of a {@link Connection}. `reconnects` counts its sessions after the first, ever. */
export type ConnectionState =
  /** A session is open. */
  | { readonly state: 'connected'; readonly session: Session; readonly reconnects: number }
  /**
   * The session ended, drains, or could not be opened, because of `error`. Once `pauseMs` have
   * passed the next one is opened; this is the `attempt`-th try since the last session, from 1.
   */
  | {
      readonly state: 'reconnecting';
      readonly error: SidecallError;
      readonly pauseMs: number;
      readonly attempt: number;
      readonly reconnects: number;
    }
  /**
   * Of a shared helper: it was ended in order, by `sidecall stop` for one. The next call has it
   * started again.
   */
  | { readonly state: 'ended'; readonly error: SidecallError; readonly reconnects: number }
  /** `close()` was called. */
  | { readonly state: 'closing'; readonly reconnects: number }
  /** Final: `close()` is done. */
  | { readonly state: 'closed'; readonly reconnects: number }
  /** Final: no session could be opened for `reconnect.giveUpMs`. `error` holds the last reason. */
  | { readonly state: 'gave-up'; readonly error: SidecallError; readonly reconnects: number };

/** No other state follows. */
export function isConnectionEnd({ state }: ConnectionState): boolean {
  return state === 'closed' || state === 'gave-up';
}
