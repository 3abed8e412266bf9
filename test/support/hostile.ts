// A peer that writes arbitrary frames to a real session.

import type { SidecallEvent } from '../../src/base/events.ts';
import { checkLimits, type SessionLimits } from '../../src/base/limits/option-limits.ts';
import { Session } from '../../src/rpc/session/session.ts';
import { HeaderWriter, headerAt, headerBytes, readU32 } from '../../src/wire/frame-header.ts';
import { type LoopbackTransport, loopbackPair } from '../../src/wire/loopback-transport.ts';

export interface RawFrame {
  readonly type: number;
  readonly header: Uint8Array;
  readonly payload: Uint8Array;
}

export interface Hostile {
  readonly session: Session;
  readonly events: SidecallEvent[];
  readonly raw: LoopbackTransport;
  readonly write: HeaderWriter;
  /** Every frame that the session has sent. */
  readonly heard: RawFrame[];
  readonly send: (header: Uint8Array, payload?: Uint8Array | string) => void;
  /** Announces a method name as number 0, 1, … */
  readonly announce: (...names: string[]) => void;
  /** A whole call in one frame. */
  readonly open: (call: Partial<Parameters<HeaderWriter['open']>[0]>, payload?: string) => void;
}

/** `clock` false: the peer has not sent its clock, which comes before every other frame. */
export function hostilePeer(limits: Partial<SessionLimits> = {}, clock = true): Hostile {
  const [ours, raw] = loopbackPair();
  const events: SidecallEvent[] = [];
  const heard: RawFrame[] = [];
  const session = new Session({
    transport: ours,
    peer: {
      origin: 'loopback',
      capturedAt: 'connect',
      pid: 1,
      pidIsHint: false,
      uid: 0,
      gid: 0,
      groups: [],
    },
    own: checkLimits(limits),
    remote: checkLimits(undefined),
    laneReason: 'a test',
    onEvent: (event) => events.push(event),
  });
  raw.start({
    onFrame: (memory, at, payload, from, to) => {
      const header = headerAt(memory, at).slice();
      heard.push({ type: header[0] as number, header, payload: payload.slice(from, to) });
    },
    placeFor: () => undefined,
    takeAhead: () => false,
    onRoom: () => undefined,
    onEnd: () => undefined,
  });
  const write = new HeaderWriter();
  const send = (header: Uint8Array, payload?: Uint8Array | string): void => {
    raw.trySend(header, payload, false);
  };
  if (clock) send(write.clock(1));
  let announced = 0;
  return {
    session,
    events,
    raw,
    write,
    heard,
    send,
    announce: (...names) => {
      for (const name of names) {
        send(write.method(announced), name);
        announced += 1;
      }
    },
    open: (call, payload = '') => {
      const standard = { kind: 1, slot: 0, generation: 1, method: 0, timeoutMs: 0xffff_ffff };
      const sizes = {
        metadataBytes: 0,
        messageBytes: Buffer.byteLength(payload),
        windowBytes: 0,
        sentAt: 0,
      };
      send(write.open({ ...standard, ...sizes, ...call }), payload);
    },
  };
}

/** A header of a type, all other bytes `fill`. */
export function rawHeader(type: number, fill: number, bytes = headerBytes(type)): Uint8Array {
  const header = new Uint8Array(bytes).fill(fill);
  header[0] = type;
  return header;
}

export function slotOf(frame: RawFrame): { slot: number; generation: number } {
  return { slot: readU32(frame.header, 4), generation: readU32(frame.header, 8) };
}
