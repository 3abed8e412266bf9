// SPDX-License-Identifier: MIT
// The process at the other end, as far as it is known.

/** The process at the other end, and how it is known. */
export interface Peer {
  /**
   * The source of the identity. `kernel`: the kernel named the process that connected or listened.
   * `spawned`: we started that process. `parent`: the kernel named the creator of the pair that we
   * inherited. `path`: unknown; only the permissions of the socket file protect the connection.
   * `loopback`: the same process, in tests. `tls`, `secret`: another machine, by `serveGrpc()`: a
   * certificate, or a secret that its `authenticate` accepted.
   */
  readonly origin: 'kernel' | 'spawned' | 'parent' | 'path' | 'loopback' | 'tls' | 'secret';
  /**
   * The moment that the ids below describe. A descriptor can be handed on later; ids do not follow.
   */
  readonly capturedAt: 'connect' | 'listen' | 'spawn';
  /** Process id; undefined where it is unknown, 0 where the peer lives in another pid namespace. */
  readonly pid: number | undefined;
  /** True where the pid is only evidence (macOS: the last process that used the socket). */
  readonly pidIsHint: boolean;
  /** Effective user id; undefined where it is unknown. */
  readonly uid: number | undefined;
  /** Effective group id; undefined where it is unknown. */
  readonly gid: number | undefined;
  /** Supplementary groups; undefined where the system does not tell. */
  readonly groups: readonly number[] | undefined;
  /** The name that `authenticate` of `serveGrpc()` gave it; undefined for all others. */
  readonly name?: string | undefined;
}

/**
 * True: the process is one of our own, so that the error of a handler may be told to it in words.
 * It is the process that started us, one that we started under our own user, this process itself,
 * or one of our own user that the default policy let in. A policy of the application's own may
 * accept processes that are trusted less, such as sandboxed ones.
 */
export function isOwnProcess({ origin, uid }: Peer, isDefaultPolicy: boolean): boolean {
  if (origin === 'parent') return true;
  if (uid === undefined || uid !== process.geteuid?.()) return false;
  return origin === 'spawned' || origin === 'loopback' || (origin === 'kernel' && isDefaultPolicy);
}
