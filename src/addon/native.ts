// SPDX-License-Identifier: MIT
// The only file that loads the addon. It loads on first use, never at import, and never throws there:
// without it, helpers still work, and what needs the kernel's word fails closed.
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { SidecallError } from '../base/errors.ts';
import { version } from '../base/version.ts';
import * as load from './requires.cjs';

/** What the kernel says of the peer of a connected Unix socket. */
interface NativePeer {
  readonly pid: number;
  readonly pidIsHint: boolean;
  readonly uid: number;
  readonly gid: number;
  readonly groups?: readonly number[];
  readonly isAlive?: boolean;
}

export interface NativeFileStatus {
  readonly type: 'file' | 'directory' | 'link' | 'socket' | 'other';
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  /** Device and inode: equal for the same file only. */
  readonly identity: string;
}

/** Functions of the addon. Descriptors they return are closed with the environment until disowned. */
export interface NativeAddon {
  readonly version: string;
  readonly socketPathMaxBytes: number;
  closeDescriptor(fd: number): boolean;
  disownDescriptor(fd: number): boolean;
  duplicate(fd: number): number;
  setCloseOnExec(fd: number): void;
  describe(fd: number): { type: string; isListening: boolean };
  openDirectory(path: string): number;
  statDescriptor(fd: number): NativeFileStatus;
  statAt(directory: number, name: string): NativeFileStatus | undefined;
  unlinkAt(directory: number, name: string): void;
  /** A descriptor of the entry itself, a link not followed; -1: this system has none. */
  holdEntry(directory: number, name: string): number;
  /** Of the entry that is held, or, with -1, of what has the name and is no link. */
  changeModeAt(directory: number, name: string, held: number, mode: number): void;
  changeGroupAt(directory: number, name: string, held: number, gid: number): void;
  openLockFile(directory: number, name: string): number;
  tryLock(fd: number): boolean;
  ownCredentials(): { pid: number; uid: number; gid: number; groups: number[] };
  dieWithParent(pid: number): 'armed' | 'not-child' | 'orphaned' | 'unsupported';
  peerCredentials(fd: number): NativePeer;
  /** The same without the rest, for a fifth of the time. */
  peerIds(fd: number): { pid: number; uid: number };
  socketPair(): { near: number; far: number };
  bindSocket(path: string): number;
  listenOn(fd: number, backlog: number): void;
  /**
   * A watch: `listenForEnds` is told its number once the process at the other end has ended, whoever still holds
   * that end. 0: it cannot be known here, or has ended already.
   */
  watchEnd(fd: number): number;
  /** Twice is once. */
  forgetEnd(watch: number): void;
  /** For the life of the environment; numbers of other copies of the package are told, too. */
  listenForEnds(onEnd: (watch: number) => void): void;
  /** False: no process holds the socket at the path any more. A listener does not notice. */
  isSocketHeld(path: string): boolean;
  /** -1: no connection waits. */
  acceptSocket(fd: number): number;
  /** -1: the backlog is full, try again. */
  connectSocket(path: string): number;
  /** Bytes taken; -1: no room now. `descriptor` -1: none. */
  send(fd: number, bytes: Uint8Array, offset: number, descriptor: number): number;
  /**
   * undefined: nothing there yet. `bytes` 0: the peer ended. `keep`: a descriptor that came alone waits
   * under the number `descriptor` for `acceptOutbox` or `dropReceived`. `isAdmitted`: the peer may send
   * them; EMFILE where too many wait to be closed. `owner`, here and below: of `ownerOf()`.
   */
  receive(
    fd: number,
    target: Uint8Array,
    offset: number,
    keep: boolean,
    isAdmitted: boolean,
    owner: number,
  ): NativeReceived | undefined;
  /** Each of the first `count` descriptors becomes 1 where a receive would not wait, else 0. */
  markReadable(descriptors: Int32Array, count: number): void;
  /** Bytes that the kernel holds for us at this moment. */
  queuedBytes(fd: number): number;
  /** 0: a descriptor of its may be taken; 1: closes of descriptors hang; 2: checks of memory do. */
  whyNoMemory(owner: number): number;
  refuseDescriptors(fd: number): boolean;
  admitDescriptors(fd: number): boolean;
  /** Memory that the functions below work on, the same at each call. */
  ringExchange(): { slab: Uint8Array; staged: Uint8Array; registers: Float64Array };
  openRing(): number;
  /** Twice is once. */
  closeRing(ring: number): void;
  /**
   * The descriptor to send; -1: more than `shareMaxBytes` of the process would be rings; -2: it is being
   * made on a thread, and `takeOutbox` has it.
   */
  createOutbox(
    ring: number,
    capacity: number,
    blockArea: number,
    nonce: Uint8Array,
    shareMaxBytes: number,
    owner: number,
  ): number;
  /**
   * `onNews` is called whenever a thread has made or checked the memory of a ring; for the life of the
   * environment.
   */
  listenForNews(onNews: (ring: number) => void): void;
  /** As `createOutbox`, of the memory that is being made. */
  takeOutbox(ring: number): number;
  /**
   * Begins the check of a peer's memory, on a thread. `wantsBlocks`: its block area, too. False: the system
   * has no thread left, and the descriptor was closed.
   */
  acceptOutbox(
    ring: number,
    descriptor: number,
    capacity: number,
    blockArea: number,
    nonce: Uint8Array,
    wantsBlocks: boolean,
    owner: number,
  ): boolean;
  /** true: mapped; false: the check is under way; else why not. */
  takeAccepted(ring: number): boolean | { isViolation: boolean; what: string };
  dropReceived(descriptor: number, owner: number): void;
  /** Shuts a socket down, and closes it on a thread: what is queued on it may block that. */
  closeStranger(fd: number, owner: number): void;
  joinRing(ring: number, fd: number, mayLend: boolean, mayBorrow: boolean): void;
  /** Lets the C library use the memory of long messages again; see `native/os/allocator.h`. */
  keepFreedBlocks(): void;
  /** Gives the C library's freed memory back to the kernel, on a thread, where it is more than so much. */
  returnFreedBlocks(aboveBytes: number): void;
  /** Is memory of closed rings of this thread being unmapped? It counts until then. */
  isReclaiming(): boolean;
  /** Bytes of our own outboxes in all threads of this process. */
  ringMemoryBytes(): number;
  ringWriteStaged(ring: number, bytes: number, bulk: number): number;
  ringWriteBytes(ring: number, headerBytes: number, payload: Uint8Array, bulk: number): number;
  ringPublish(ring: number): number;
  ringDrain(ring: number, recordsMax: number, looks: number): number;
  ringTake(ring: number, skip: number, target: Uint8Array): number;
  /** Over a block of our outbox, its offset in a register. undefined: none is free, or may be given out. */
  ringAllocate(ring: number, bytes: number): Buffer | undefined;
  ringFreeBlock(ring: number, offset: number): number;
  ringWriteBlock(ring: number, stagedBytes: number, offset: number, bytes: number): number;
  ringTakeBlock(ring: number): number;
  ringCopyLease(ring: number, lease: number, target: Uint8Array): number;
  /** Over the peer's memory, mapped read-only. undefined: the host wants no external buffers. */
  ringLend(ring: number, lease: number): Buffer | undefined;
  ringReleaseLease(ring: number, lease: number): number;
  /** Each once per array buffer of `ringAllocate` (1) and `ringLend` (0). */
  ringDropObject(ring: number, ofOurs: number): void;
  ringCountBlocks(ring: number): number;
  detach(memory: ArrayBuffer): void;
  ringHasRoom(ring: number): number;
  ringPrepareToSleep(ring: number): number;
  ringWake(ring: number): number;
  ringOnDoorbell(ring: number, bytes: number): number;
  ringFreeze(ring: number): number;
}

/** What one non-blocking read of a hello gave. */
interface NativeReceived {
  readonly bytes: number;
  readonly descriptors: number;
  readonly isTruncated: boolean;
  readonly hasOtherControl: boolean;
  readonly descriptor?: number;
}

/** One file that was tried. */
export interface NativeAttempt {
  /** What named it: the variable, a build in a checkout of this project, or the file that the package carries. */
  readonly source: 'SIDECALL_NATIVE' | 'checkout' | 'package';
  readonly file: string;
  /** Why it is not used; undefined: it is. */
  readonly failure: string | undefined;
}

/** The addon, or why there is none. */
export type NativeState =
  | {
      readonly addon: NativeAddon;
      readonly file: string;
      readonly reason: undefined;
      readonly attempts: readonly NativeAttempt[];
    }
  | {
      readonly addon: undefined;
      readonly file: undefined;
      readonly reason: string;
      readonly attempts: readonly NativeAttempt[];
    };

let state: NativeState | undefined;

/** Loads the addon once per environment. */
export function nativeState(): NativeState {
  state ??= loadFirst();
  return state;
}

/** @throws {SidecallError} `ADDON_UNAVAILABLE`, saying what was wanted and why it cannot be had. */
export function requireNative(wanted: string): NativeAddon {
  const { addon, reason } = nativeState();
  if (addon !== undefined) return addon;
  throw new SidecallError('ERR_SIDECALL_ADDON_UNAVAILABLE', `${wanted} needs the addon: ${reason}`);
}

interface Candidate {
  readonly source: NativeAttempt['source'];
  readonly file: string;
  readonly open: () => unknown;
}

/** What a Node must be for the addon and for us; an Electron app sees no `engines`. */
const nodeMin = [20, 19] as const;

function loadFirst(): NativeState {
  const override = process.env.SIDECALL_NATIVE || undefined;
  if (override === 'off') return missing('SIDECALL_NATIVE=off switches it off', []);
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  if (major < nodeMin[0] || (major === nodeMin[0] && minor < nodeMin[1])) {
    return missing(
      `this is Node ${process.versions.node}, at least ${nodeMin.join('.')} is needed`,
      [],
    );
  }
  const attempts: NativeAttempt[] = [];
  for (const { source, file, open } of candidates(override)) {
    const { addon, failure } = tryOpen(open);
    const used = (addon === undefined ? undefined : load.fileOf(addon)) ?? file;
    attempts.push({ source, file: used, failure });
    if (addon !== undefined) return { addon, file: used, reason: undefined, attempts };
  }
  return missing(attempts.map(({ file, failure }) => `${file}: ${failure}`).join('; '), attempts);
}

function candidates(override: string | undefined): readonly Candidate[] {
  if (override !== undefined) {
    const file = resolve(override);
    return [{ source: 'SIDECALL_NATIVE', file, open: () => load.fromFile(file) }];
  }
  const platform = platformName();
  const file = `prebuilds/${platform}/sidecall.node`;
  const prebuilt: Candidate = { source: 'package', file, open: () => openPrebuilt(platform) };
  const built = checkoutFile();
  if (built === undefined) return [prebuilt];
  return [{ source: 'checkout', file: built, open: () => load.fromFile(built) }, prebuilt];
}

function openPrebuilt(platform: string): unknown {
  const open = load.prebuilt[platform];
  if (open !== undefined) return open();
  const carried = Object.keys(load.prebuilt).join(', ');
  throw new Error(`the package carries none for ${platform}, only for ${carried}`);
}

/** undefined: there is none, as in a package that was installed, or in a bundle. */
function checkoutFile(): string | undefined {
  try {
    const file = load.checkoutFile();
    return existsSync(file) ? file : undefined;
  } catch {
    return undefined;
  }
}

function tryOpen(open: () => unknown): {
  addon: NativeAddon | undefined;
  failure: string | undefined;
} {
  try {
    const addon = open() as NativeAddon;
    if (typeof addon?.peerCredentials !== 'function' || typeof addon.openRing !== 'function') {
      return { addon: undefined, failure: 'it is no addon of sidecall' };
    }
    if (addon.version === version) return { addon, failure: undefined };
    return {
      addon: undefined,
      failure: `it is of version ${addon.version}, this package is ${version}`,
    };
  } catch (error) {
    return { addon: undefined, failure: whyNot(error) };
  }
}

function missing(reason: string, attempts: readonly NativeAttempt[]): NativeState {
  return { addon: undefined, file: undefined, reason, attempts };
}

function whyNot(error: unknown): string {
  const { code, message } = error as { code?: string; message: string };
  if (code === 'ERR_DLOPEN_DISABLED')
    return 'Node was told to load no addons: by --no-addons, or by --permission without --allow-addons';
  if (code === 'MODULE_NOT_FOUND') return 'there is no such file';
  return message.split('\n')[0] as string;
}

/** Platform, architecture and C library. A glibc file loaded on musl fails late and strangely. */
export function platformName(): string {
  const libc = process.platform === 'linux' && !hasGlibc() ? '-musl' : '';
  return `${process.platform}-${process.arch}${libc}`;
}

/** Other hosts than Node may have none. */
export function processReport(): { readonly [part: string]: unknown } | undefined {
  const report = process.report as
    | (typeof process.report & { excludeNetwork?: boolean })
    | undefined;
  if (report === undefined) return undefined;
  // Without this it may wait for DNS.
  const before = report.excludeNetwork ?? false;
  report.excludeNetwork = true;
  const told = report.getReport() as { readonly [part: string]: unknown };
  report.excludeNetwork = before;
  return told;
}

function hasGlibc(): boolean {
  const report = processReport() as { header: { glibcVersionRuntime?: string } } | undefined;
  return report === undefined || report.header.glibcVersionRuntime !== undefined;
}
