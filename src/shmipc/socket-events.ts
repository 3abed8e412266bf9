// SPDX-License-Identifier: MIT
// The events of shmipc-go that go over the socket of a session, behind its handshake.
import { Buffer } from 'node:buffer';
import { SidecallError } from '../base/errors.ts';

/** The status of an element of a queue, and of data that come by the socket. */
export const Status = { data: 0, closed: 1 } as const;

/** An event of the peer. */
export type SocketEvent =
  /** Elements lie in the queue. */
  | { readonly type: 'wake' }
  | { readonly type: 'close'; readonly stream: number }
  /** A part of the bytes that the peer had no shared memory for. */
  | {
      readonly type: 'data';
      readonly stream: number;
      readonly status: number;
      readonly bytes: Uint8Array;
    };

const magic = 0x7758;
const headerBytes = 8;
const dataHeaderBytes = 16;

const EventType = { wake: 1, close: 2, data: 3, restart: 8, restarted: 9 } as const;

/** Whole bytes of each type; of `data`: up to its payload. */
const eventBytes: Readonly<Record<number, number>> = {
  [EventType.wake]: headerBytes,
  [EventType.close]: headerBytes + 4,
  [EventType.data]: dataHeaderBytes,
  [EventType.restart]: headerBytes + 8,
  [EventType.restarted]: headerBytes + 8,
};

function event(version: number, type: number, length: number): Buffer {
  const bytes = Buffer.alloc(Math.min(length, dataHeaderBytes));
  bytes.writeUInt32BE(length, 0);
  bytes.writeUInt16BE(magic, 4);
  bytes.writeUInt8(version, 6);
  bytes.writeUInt8(type, 7);
  return bytes;
}

export function encodeWake(version: number): Buffer {
  return event(version, EventType.wake, headerBytes);
}

export function encodeClose(version: number, stream: number): Buffer {
  const bytes = event(version, EventType.close, headerBytes + 4);
  bytes.writeUInt32BE(stream, headerBytes);
  return bytes;
}

export function encodeData(version: number, stream: number, payload: Uint8Array): Buffer {
  const header = event(version, EventType.data, dataHeaderBytes + payload.length);
  header.writeUInt32BE(stream, headerBytes);
  return Buffer.concat([header, payload]);
}

/** Reads events from the bytes of a socket. Keeps less than one header between two calls. */
export class SocketEventReader {
  readonly #version: number;
  readonly #isServer: boolean;
  #rest: Uint8Array = new Uint8Array(0);
  #data: { readonly stream: number; readonly status: number } | undefined;
  #dataLeft = 0;

  /** `isServer`: the peer is the client, which asks for no restart. */
  constructor(version: number, isServer: boolean) {
    this.#version = version;
    this.#isServer = isServer;
  }

  /** Bytes of an event that has begun have arrived, and are not read yet. */
  get isMidway(): boolean {
    return this.#rest.length > 0 || this.#dataLeft > 0;
  }

  /** @throws {SidecallError} `ERR_SIDECALL_PROTOCOL`. */
  *push(bytes: Uint8Array): Generator<SocketEvent, void, undefined> {
    let left = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes]);
    this.#rest = left.subarray(0, 0);
    while (left.length > 0) {
      if (this.#dataLeft > 0) {
        const payload = left.subarray(0, this.#dataLeft);
        left = left.subarray(payload.length);
        this.#dataLeft -= payload.length;
        const { stream, status } = this.#data as { stream: number; status: number };
        yield { type: 'data', stream, status, bytes: payload };
        continue;
      }
      const read = this.#readHeader(left);
      if (read === undefined) {
        this.#rest = Uint8Array.from(left);
        return;
      }
      left = left.subarray(read.bytes);
      if (read.event !== undefined) yield read.event;
    }
  }

  /** undefined: not whole yet. */
  #readHeader(
    bytes: Uint8Array,
  ): { readonly bytes: number; readonly event?: SocketEvent } | undefined {
    if (bytes.length < headerBytes) return undefined;
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    const length = view.getUint32(0);
    const version = view.getUint8(6);
    const type = view.getUint8(7);
    if (view.getUint16(4) !== magic) throw broken('bytes that are no event of shmipc-go');
    if (version !== this.#version) throw broken(`an event of version ${version}`);
    const whole = eventBytes[type];
    const isRefused = type === EventType.restart && this.#isServer;
    if (whole === undefined || isRefused) throw broken(`an event of type ${type}`);
    if (type === EventType.data ? length < whole : length !== whole) {
      throw broken(`an event of type ${type} with ${length} bytes`);
    }
    if (bytes.length < whole) return undefined;
    if (type === EventType.wake) return { bytes: whole, event: { type: 'wake' } };
    const stream = view.getUint32(headerBytes);
    if (type === EventType.close) return { bytes: whole, event: { type: 'close', stream } };
    if (type === EventType.data) {
      this.#data = { stream, status: view.getUint8(dataHeaderBytes - 1) };
      this.#dataLeft = length - whole;
    }
    return { bytes: whole }; // a restart of a server is not followed: its sessions end by themselves
  }
}

function broken(what: string): SidecallError {
  return new SidecallError('ERR_SIDECALL_PROTOCOL', `shmipc: the peer sent ${what}`);
}
