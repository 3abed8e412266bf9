// SPDX-License-Identifier: MIT
// The findings of `sidecall doctor`.
import type { NativeAttempt } from '../addon/load-addon.ts';
import type { Peer } from '../base/peer.ts';

/** The result of one check: it works, or the reason why not. */
export interface Finding {
  readonly ok: boolean;
  readonly reason: string | undefined;
}

/** A session that two processes of this machine got. */
export interface LaneFinding extends Finding {
  readonly lane: string | undefined;
  readonly laneReason: string | undefined;
  /** The authority that vouches for the other side. */
  readonly origin: Peer['origin'] | undefined;
}

/** The report of `sidecall doctor --json`. */
export interface DoctorReport {
  /** All that this platform should be able to do works. */
  readonly ok: boolean;
  readonly sidecall: string;
  readonly node: string;
  readonly platform: string;
  readonly kernel: string;
  readonly addon: {
    readonly loaded: boolean;
    readonly file: string | undefined;
    readonly reason: string | undefined;
    readonly tried: readonly NativeAttempt[];
  };
  readonly features: {
    /** Shared memory that can be sealed, for the ring lane. */
    readonly sealedMemory: Finding;
    /**
     * Does the kernel give a pidfd of the peer's process, which never refers to another process?
     */
    readonly peerPidfd: Finding;
    /** Does the kernel report the peer's supplementary groups? */
    readonly peerGroups: Finding;
    readonly helpersDieWithParent: Finding;
  };
  readonly limits: {
    readonly openFiles: { readonly soft: string; readonly hard: string } | undefined;
    readonly socketPathMaxBytes: number;
  };
  readonly socketDirectory: Finding & {
    readonly path: string | undefined;
    readonly mode: string | undefined;
    readonly uid: number | undefined;
    /** Of a path that `listen()` makes by itself. */
    readonly pathBytes: number | undefined;
  };
  readonly lanes: { readonly helper: LaneFinding; readonly path: LaneFinding };
  readonly selfTest: SelfTest | { readonly ok: false; readonly reason: string };
  /** Advice on the features that do not work. */
  readonly advice: readonly string[];
}

/** The result of one second of calls. */
export interface SelfTest {
  readonly ok: boolean;
  /** The failure; undefined: there was none. */
  readonly reason: string | undefined;
  /** Small calls, one after the other, answered and compared. */
  readonly calls: number;
  /** Of those calls, in microseconds. */
  readonly medianUs: number;
  readonly slowestUs: number;
  /** Echoed in messages of 1 MB and compared. */
  readonly megabytes: number;
  /** Messages of a stream, in order. */
  readonly streamed: number;
  /** Round trip to the other event loop. */
  readonly pingMs: number;
}
