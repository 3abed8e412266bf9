// SPDX-License-Identifier: MIT
// A door is given to the server whose services it serves, so that the server can close it.
import { type Services, servedSetOf } from './registry.ts';

/** Something with the usual end: `close({ deadlineMs })`, and a promise of that end. */
interface Closable {
  readonly closed: Promise<unknown>;
  close(options: { readonly deadlineMs: number }): Promise<unknown>;
}

/**
 * Gives `door` to the server that `services` is, if it is one.
 * @returns the same door.
 * @throws (as rejection) {SidecallError} `ERR_SIDECALL_CLOSED` where the server was closed
 * meanwhile; then the door is closed.
 */
export async function held<D extends Closable>(
  services: Services | undefined,
  door: D,
  { isListener = false }: { readonly isListener?: boolean } = {},
): Promise<D> {
  await servedSetOf(services)?.hold({
    closed: door.closed,
    isListener,
    close: (deadlineMs) => door.close({ deadlineMs }),
  });
  return door;
}
