// SPDX-License-Identifier: MIT
// The successor's side of a hand-over: it gets the socket of the listener before it, or listens
// itself where there is none.
import type { Clock } from '../base/clock.ts';
import { RpcError, SidecallError } from '../base/errors.ts';
import { ignore } from '../base/ignore-errors.ts';
import { tuning } from '../base/limits/internal-limits.ts';
import { ranges, sessionRanges } from '../base/limits/option-limits.ts';
import type { Metadata } from '../base/metadata.ts';
import { checkFunction, checkInteger, checkKeys } from '../base/misuse.ts';
import { pause } from '../base/pause.ts';
import { withDeadline } from '../open/time-limit.ts';
import type { Session } from '../rpc/session/session.ts';
import { checkPolicy, type PeerPolicy } from '../uds/peer-policy.ts';
import { encodeMetadata } from '../wire/metadata-bytes.ts';
import { orAborted } from './hand-over.ts';
import { HandOverService, type ListenerStep } from './hand-over-service.ts';

/** Options of `listen({ takeOver })`. */
export interface TakeOverOptions<L> {
  /**
   * Called before the first connection is accepted: to serve, and to load what is needed. The
   * listener before goes on until it resolves. Where it rejects, `listen()` rejects with its error,
   * and the listener before stays. Default: ready at once.
   */
  readonly ready?: ((listener: L) => void | Promise<void>) | undefined;
  /** Key-values for `refuse` of the listener before, such as a version. Default: none. */
  readonly metadata?: Metadata | undefined;
  /**
   * The policy for the previous listener, whose user must be our own in any case. Default: any
   * process of our own effective uid.
   */
  readonly from?: PeerPolicy | undefined;
  /**
   * Milliseconds until a listener that is there offers its socket. Default 30,000; 100 to 600,000.
   */
  readonly timeoutMs?: number | undefined;
}

/** Checked {@link TakeOverOptions}. */
export interface TakeOverSettings<L> {
  readonly ready: (listener: L) => void | Promise<void>;
  readonly metadata: Metadata;
  readonly from: PeerPolicy | undefined;
  readonly timeoutMs: number;
}

/** @throws {TypeError | RangeError} for misuse. */
export function checkTakeOver<L>(
  takeOver: boolean | TakeOverOptions<L> | undefined,
): TakeOverSettings<L> | undefined {
  if (takeOver === undefined || takeOver === false) return undefined;
  const given = takeOver === true ? {} : takeOver;
  checkKeys('takeOver', given, ['ready', 'metadata', 'from', 'timeoutMs']);
  const { ready = () => undefined, metadata = {}, from, timeoutMs } = given;
  checkFunction('takeOver.ready', ready);
  encodeMetadata(metadata, sessionRanges.metadataMaxBytes.max); // throws for what cannot travel
  checkPolicy('takeOver.from', from);
  const checkedMs = checkInteger('takeOver.timeoutMs', timeoutMs, ranges.startTimeoutMs);
  return { ready, metadata, from, timeoutMs: checkedMs };
}

/** The socket of the listener before. */
interface ReceivedPath {
  readonly descriptor: number;
  readonly epoch: number;
}

/** A listener that accepts no connections yet. */
export interface HeldListener {
  /** @throws {SidecallError} `ERR_SIDECALL_CLOSED`. */
  checkOpen(): void;
  /** Accepts connections from now on. @throws {SidecallError} `ERR_SIDECALL_CLOSED`. */
  begin(): void;
  /** The path is ours. False: the process before still has its lock. */
  tryLock(): boolean;
  close(options: { readonly deadlineMs: number }): Promise<unknown>;
}

/** The path that is to be taken over, and the system around it. */
export interface PathBefore {
  readonly clock: Clock;
  /**
   * A session with the process that listens there, which may be the one before.
   * @throws as `connect()`.
   */
  connect(limitMs: number): Promise<Session>;
  /**
   * Makes a file in the directory of the socket, for the listener of this session, which removes
   * it. Returns how to remove it where that one did not.
   */
  prove(file: string): () => void;
  /** Receives the socket of the listener of this session at the place that it offers. */
  receive(place: string, session: Session, signal: AbortSignal): Promise<number>;
}

/** The parts of {@link listenOrTakeOver}. */
export interface TakeOverParts<L extends HeldListener> {
  readonly path: string;
  readonly before: PathBefore;
  readonly settings: TakeOverSettings<L>;
  /** Opens a listener that does not accept yet: with the socket of another one, or by itself. */
  readonly open: (received: ReceivedPath | undefined) => Promise<L>;
}

/**
 * Takes a path over from the process that listens there, or listens where there is none.
 * @throws (as rejection) {SidecallError} `ERR_SIDECALL_PATH_IN_USE` where a listener is there and
 * does not hand over in time; what `listen()` and `connect()` reject with; the error of `ready`.
 */
export async function listenOrTakeOver<L extends HeldListener>(
  parts: TakeOverParts<L>,
): Promise<L> {
  const { clock } = parts.before;
  const until = clock.nowMs() + parts.settings.timeoutMs;
  for (;;) {
    try {
      return await tryOnce(parts);
    } catch (error) {
      if (!(error instanceof NotYet)) throw error;
      if (clock.nowMs() >= until) throw inUse(parts.path, parts.settings.timeoutMs, error.why);
    }
    await pause(clock, retryMs, never);
  }
}

const never = new AbortController().signal;
const retryMs = 50;

/** No listener hands over at this moment; it may later. */
class NotYet {
  readonly why: SidecallError;

  constructor(why: SidecallError) {
    this.why = why;
  }
}

async function tryOnce<L extends HeldListener>(parts: TakeOverParts<L>): Promise<L> {
  let session: Session;
  try {
    const limitMs = Math.min(parts.settings.timeoutMs, ranges.connectTimeoutMs.max);
    session = await parts.before.connect(limitMs);
  } catch (error) {
    if (SidecallError.is(error) && error.code === 'ERR_SIDECALL_NO_LISTENER') {
      return listenAlone(parts);
    }
    throw laterOr(error);
  }
  try {
    return await takeFrom(parts, session);
  } finally {
    await session.close({ deadlineMs: 0 });
  }
}

/** There is no listener before. */
async function listenAlone<L extends HeldListener>(parts: TakeOverParts<L>): Promise<L> {
  let listener: L;
  try {
    listener = await parts.open(undefined);
  } catch (error) {
    throw laterOr(error); // another process was faster
  }
  return prepared(listener, parts.settings, async () => listener.begin());
}

async function takeFrom<L extends HeldListener>(
  parts: TakeOverParts<L>,
  session: Session,
): Promise<L> {
  const { settings, before } = parts;
  const { clock } = before;
  const call = session.client(HandOverService).takeOver({ metadata: settings.metadata });
  const steps = call[Symbol.asyncIterator]();
  let received: ReceivedPath;
  let removeProof: () => void = ignore;
  try {
    const next = (): Promise<IteratorResult<ListenerStep, undefined>> =>
      inTime(clock, steps.next(), settings.timeoutMs, 'the offer of the listener before');
    const { value: asked } = await next();
    if (asked?.step !== 'prove') throw protocolError();
    removeProof = before.prove(asked.file);
    await call.send('proved');
    const { place, epoch } = offerOf(await next());
    const descriptor = await withDeadline(
      `the socket of ${parts.path}`,
      tuning.handOverStepMs,
      undefined,
      (signal) => before.receive(place, session, signal),
      clock,
    );
    received = { descriptor, epoch };
  } catch (error) {
    if (RpcError.is(error) && error.status === 'failed_precondition') {
      throw new SidecallError('ERR_SIDECALL_PATH_IN_USE', error.message, { cause: error });
    }
    if (RpcError.is(error) && error.status === 'permission_denied') {
      throw new SidecallError('ERR_SIDECALL_PEER_DENIED', error.message, { cause: error });
    }
    throw laterOr(error);
  } finally {
    removeProof();
  }
  const listener = await parts.open(received);
  return prepared(listener, settings, async () => {
    try {
      listener.checkOpen();
      await call.send('ready');
      const step = steps.next();
      const { value } = await inTime(
        clock,
        step,
        tuning.handOverStepMs,
        'the confirmation of the previous listener',
      );
      if (value?.step !== 'yours') throw protocolError();
      await call.send('accepting');
      await call.end();
      // Connections that both accept would be lost where the previous listener continues.
      const end = inTime(
        clock,
        steps.next(),
        tuning.handOverStepMs,
        'the end of the previous listener',
      );
      if ((await end).done !== true) throw protocolError();
      listener.begin();
    } catch (error) {
      listener.checkOpen();
      // The listener before has died, or goes on: the lock tells.
      if (!(await lockWithin(clock, listener, tuning.handOverLockMs))) throw lostTo(error);
      listener.begin();
      return;
    }
    if (await lockWithin(clock, listener, tuning.handOverStepMs)) return;
    const text = `${parts.path}: the previous listener kept its lock for ${tuning.handOverStepMs} ms, so it keeps the path; call listen({ takeOver }) again`;
    throw new SidecallError('ERR_SIDECALL_PATH_IN_USE', text);
  });
}

/** Closes the listener where it cannot begin. */
async function prepared<L extends HeldListener>(
  listener: L,
  { ready }: TakeOverSettings<L>,
  begin: () => Promise<void>,
): Promise<L> {
  try {
    await ready(listener);
    await begin();
    return listener;
  } catch (error) {
    await listener.close({ deadlineMs: 0 });
    throw error;
  }
}

async function lockWithin(clock: Clock, listener: HeldListener, ms: number): Promise<boolean> {
  const until = clock.nowMs() + ms;
  for (;;) {
    try {
      if (listener.tryLock()) return true;
      if (clock.nowMs() >= until) return false;
    } catch (error) {
      // Such as no descriptor at this moment.
      listener.checkOpen();
      if (clock.nowMs() >= until) throw error;
    }
    await pause(clock, lockPauseMs, never);
  }
}

/** Rejects where the other side takes longer than that. */
function inTime<T>(clock: Clock, step: Promise<T>, ms: number, what: string): Promise<T> {
  return withDeadline(what, ms, undefined, (signal) => orAborted(step, signal), clock);
}

/** Another successor was faster, or the previous listener goes on. */
function lostTo(error: unknown): unknown {
  if (!RpcError.is(error) || error.status !== 'unavailable') return error;
  return new SidecallError('ERR_SIDECALL_PATH_IN_USE', error.message, { cause: error });
}

const lockPauseMs = 5;

function offerOf({ value }: IteratorResult<ListenerStep, undefined>): {
  readonly place: string;
  readonly epoch: number;
} {
  if (value?.step !== 'offer' || typeof value.place !== 'string') throw protocolError();
  if (!Number.isSafeInteger(value.epoch)) throw protocolError();
  return value;
}

export function protocolError(): SidecallError {
  const text =
    'the previous listener sent another step than the hand-over expects; the versions of both programs may differ';
  return new SidecallError('ERR_SIDECALL_PROTOCOL', text);
}

/** The error, or that a listener may hand over later. */
function laterOr(error: unknown): unknown {
  if (!SidecallError.is(error)) return error;
  const isBusy =
    RpcError.is(error) && (error.status === 'unimplemented' || error.status === 'unavailable');
  const isLater = !RpcError.is(error) && (error.retryable || laterCodes.has(error.code));
  return isBusy || isLater ? new NotYet(error) : error;
}

const laterCodes = new Set(['ERR_SIDECALL_PATH_IN_USE', 'ERR_SIDECALL_NO_LISTENER']);

function inUse(path: string, timeoutMs: number, why: SidecallError): SidecallError {
  const text = `${path} was not handed over within ${timeoutMs} ms (takeOver.timeoutMs): ${why.message}`;
  const isOurs = why.code === 'ERR_SIDECALL_LIMIT_DESCRIPTORS'; // of this process, not of the listener
  return new SidecallError(isOurs ? why.code : 'ERR_SIDECALL_PATH_IN_USE', text, { cause: why });
}
