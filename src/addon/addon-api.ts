// SPDX-License-Identifier: MIT
// The functions of the native addon, typed.

/** The kernel's record of the peer of a connected Unix socket. */
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

/**
 * Functions of the addon. Descriptors they return are closed with the environment until disowned.
 */
export interface NativeAddon {
  readonly version: string;
  readonly socketPathMaxBytes: number;
  closeDescriptor(fd: number): boolean;
  disownDescriptor(fd: number): boolean;
  duplicate(fd: number): number;
  /** A duplicate that the addon owns; `fd`, which this process inherited, is closed. */
  moveDescriptor(fd: number): number;
  setCloseOnExec(fd: number): void;
  describe(fd: number): { type: string; isListening: boolean };
  openDirectory(path: string): number;
  statDescriptor(fd: number): NativeFileStatus;
  statAt(directory: number, name: string): NativeFileStatus | undefined;
  unlinkAt(directory: number, name: string): void;
  /** A descriptor of the entry itself, a link not followed; -1: this system has none. */
  holdEntry(directory: number, name: string): number;
  /**
   * Changes the entry behind the descriptor `held`; with -1, the entry of this
   * name, unless it is a link.
   */
  changeModeAt(directory: number, name: string, held: number, mode: number): void;
  /** -1 leaves the user or the group as it is. */
  changeOwnerAt(directory: number, name: string, held: number, uid: number, gid: number): void;
  openLockFile(directory: number, name: string): number;
  tryLock(fd: number): boolean;
  ownCredentials(): { pid: number; uid: number; gid: number; groups: number[] };
  dieWithParent(pid: number): 'armed' | 'not-child' | 'orphaned' | 'unsupported';
  /** Takes back what the process that started us, or `dieWithParent`, has set. */
  outliveParent(): void;
  /**
   * Puts milliseconds into `times`: those for which this thread has run, and those for which it was
   * ready while others ran in its place, since it began; zeros where the system does not tell
   * (Linux with /proc does).
   */
  threadTimes(times: Float64Array): void;
  /** 1: the kernel kills what this thread forks from now on when this thread ends (Linux). */
  killForksWithUs(isWanted: 0 | 1): void;
  /**
   * 1: the entry that is there now is removed where our environment ends (a worker that is
   * terminated) before our program has removed it. `directory` -1: the name is a path.
   */
  removeAtEnd(directory: number, name: string, isWanted: 0 | 1): void;
  peerCredentials(fd: number): NativePeer;
  /** Pid and uid of the peer only, in a fifth of the time of `peerCredentials`. */
  peerIds(fd: number): { pid: number; uid: number };
  socketPair(): { near: number; far: number };
  bindSocket(path: string): number;
  listenOn(fd: number, backlog: number): void;
  /**
   * A watch: `listenForEnds` is told its number once the process at the other end has ended,
   * even if another process holds that end. 0: it cannot be known here, or has ended already.
   */
  watchEnd(fd: number): number;
  /** Removes the watch; a second call does nothing. */
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
   * undefined: no bytes yet. `bytes` 0: the peer has ended. `keep`: a single descriptor is kept
   * under the number `descriptor`, for `acceptOutbox` or `dropReceived`. `isAdmitted`: the peer
   * may send descriptors; then EMFILE where too many wait to be closed. `owner`, here and below:
   * the number of `ownerOf()`.
   */
  receive(
    fd: number,
    target: Uint8Array,
    offset: number,
    keep: boolean,
    isAdmitted: boolean,
    owner: number,
  ): NativeReceived | undefined;
  /**
   * A listening Unix socket that came with one byte; -1: no byte yet. `EPROTO` where something else
   * came.
   */
  receiveListening(fd: number, owner: number): number;
  /**
   * Each of the first `count` descriptors becomes 1 where a receive would not wait, else 0.
   * `mayYield`: where none would, another process gets the processor first.
   */
  markReadable(descriptors: Int32Array, count: number, mayYield: boolean): void;
  /** Bytes that the kernel holds for us at this moment. */
  queuedBytes(fd: number): number;
  /** The peer has closed its end, and the kernel holds no byte of it for us. */
  isPeerClosed(fd: number): boolean;
  /**
   * 0: a descriptor of this owner may be received; 1: descriptors cannot be closed at present; 2:
   * a check of memory hangs.
   */
  whyNoMemory(owner: number): number;
  /**
   * Switches the name of the sender on or off for what is received (Linux). False: there is none.
   */
  askForSender(fd: number, isWanted: boolean): boolean;
  /** Asks for buffers of this size; the kernel may give more or less. */
  setSocketBuffers(fd: number, bytes: number): void;
  readSocketBuffers(fd: number): { readonly send: number; readonly receive: number };
  refuseDescriptors(fd: number): boolean;
  admitDescriptors(fd: number): boolean;
  /** Memory that the functions below work on, the same at each call. */
  ringExchange(): { slab: Uint8Array; staged: Uint8Array; registers: Float64Array };
  openRing(): number;
  /** Closes the ring; a second call does nothing. */
  closeRing(ring: number): void;
  /**
   * The descriptor to send; -1: more than `shareMaxBytes` of the process would be rings; -2: it is
   * being made on a thread, and `takeOutbox` has it.
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
   * `onNotification` is called whenever a thread has made or checked the memory of a ring; for the
   * life of the environment.
   */
  listenForNotifications(onNotification: (ring: number) => void): void;
  /** As `createOutbox`, of the memory that is being made. */
  takeOutbox(ring: number): number;
  /**
   * Begins the check of a peer's memory, on a thread. `wantsBlocks`: its block area, too. False:
   * the system has no thread left, and the descriptor was closed.
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
  closeReceived(fd: number, owner: number): void;
  joinRing(ring: number, fd: number, mayLend: boolean, mayBorrow: boolean): void;
  /**
   * A copy of one memory of a joined ring, ours or the peer's: its control page, and its data up to
   * the end of the unread part, of which the first `bytesMax` bytes are copied; zeros where nothing
   * is unread. Where all is read, it is the used part of the control page alone. undefined: the
   * thread is being ended.
   */
  copyRingMemory(ring: number, ofOurs: boolean, bytesMax: number): Uint8Array | undefined;
  /** Lets the C library use the memory of long messages again; see `native/os/allocator.h`. */
  keepFreedBlocks(): void;
  /**
   * Gives the C library's freed memory back to the kernel, on a thread, where
   * it exceeds `aboveBytes`.
   */
  returnFreedBlocks(aboveBytes: number): void;
  /** Is memory of closed rings of this thread being unmapped? It counts until then. */
  isReclaiming(): boolean;
  /** Bytes of our own outboxes in all threads of this process. */
  ringMemoryBytes(): number;
  /** Results and registers of the functions of a ring, by the names that `shm/ring.ts` has. */
  readonly ringNumbers: {
    readonly written: Readonly<Record<string, number>>;
    readonly left: Readonly<Record<string, number>>;
    readonly register: Readonly<Record<string, number>>;
  };
  ringWriteStaged(ring: number, bytes: number, queue: number): number;
  ringWriteBytes(ring: number, headerBytes: number, payload: Uint8Array, queue: number): number;
  ringPublish(ring: number): number;
  ringDrain(ring: number, recordsMax: number, looks: number): number;
  ringTake(ring: number, skip: number, target: Uint8Array): number;
  /**
   * A buffer over a block of our outbox, its offset in a register. undefined: no block is free, or
   * the host refuses external buffers.
   */
  ringAllocate(ring: number, bytes: number): Buffer | undefined;
  /** Takes a block of our outbox, its offset in a register; `refused`: none is free. */
  ringTakePlace(ring: number, bytes: number): number;
  /**
   * A buffer over the whole block area of ours (1), or of the peer's (0), which is mapped
   * read-only. undefined: there is none, or the host refuses external buffers.
   */
  ringArea(ring: number, ofOurs: number): Buffer | undefined;
  ringFreeBlock(ring: number, offset: number): number;
  ringWriteBlock(ring: number, stagedBytes: number, offset: number, bytes: number): number;
  ringTakeBlock(ring: number): number;
  ringCopyLease(ring: number, lease: number, target: Uint8Array): number;
  ringReleaseLease(ring: number, lease: number): number;
  /**
   * Reports that an array buffer over memory of ours (1), or of the peer's (0), was collected; once
   * for each that `ringAllocate` and `ringArea` have given.
   */
  ringDropObject(ring: number, ofOurs: number): void;
  ringCountBlocks(ring: number): number;
  ringCountDoorbells(ring: number): number;
  ringCountMemory(ring: number): number;
  detach(memory: ArrayBuffer): void;
  /**
   * A descriptor of memory of a fixed size for a helper to write to: the given bytes, then zeros.
   * Absent, as the next two: no Linux.
   */
  createRecorder?(bytes: number, first: Uint8Array): number;
  /** Copies the memory, which has at least the length of the target. */
  readRecorder?(fd: number, target: Uint8Array): void;
  /**
   * A buffer over the memory of `createRecorder`, by a descriptor of it. undefined: the host
   * refuses external buffers.
   */
  mapRecorder?(fd: number, bytes: number): Buffer | undefined;
  ringHasRoom(ring: number): number;
  ringPrepareToSleep(ring: number): number;
  ringWake(ring: number): number;
  ringOnDoorbell(ring: number, bytes: number): number;
  ringFreeze(ring: number): number;
  /**
   * Makes and joins the memory of two rings whose ends are both in this process, for simulations.
   * Their doorbells are counted.
   */
  joinOwnRings(near: number, far: number, capacity: number, blockArea: number): void;
  /**
   * Doorbells that a ring of `joinOwnRings` has rung since the last call. `refuse`: further ones
   * fail as if the kernel had no memory for them.
   */
  takeDoorbells(ring: number, refuse: boolean): number;
  /** A store of an incorrect process into the outbox of its own ring, of `joinOwnRings`. */
  overwriteOutbox(ring: number, offset: number, bytes: Uint8Array): void;
  /** Copies a part of the outbox of a ring of `joinOwnRings`. */
  readOutbox(ring: number, offset: number, into: Uint8Array): void;
}

/** The result of one non-blocking read of a hello. */
interface NativeReceived {
  readonly bytes: number;
  readonly descriptors: number;
  readonly isTruncated: boolean;
  readonly hasOtherControl: boolean;
  /** The process that sent these bytes, where `askForSender` was called; 0: unknown. */
  readonly senderPid: number;
  readonly descriptor?: number;
}
