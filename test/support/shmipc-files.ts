// A client of shmipc-go's wire that shares no code with the addon: its memory are files, which it
// writes as files.
import { randomBytes } from 'node:crypto';
import { closeSync, ftruncateSync, openSync, readSync, rmSync, writeSync } from 'node:fs';
import type { Socket } from 'node:net';
import { connect } from '../../src/rendezvous/connect.ts';

const capacity = 64;
const half = 24 + 12 * capacity;
const slices = 16;
const sliceBytes = 256;
const stride = sliceBytes + 20;
const region = 8 + 36;

export interface FileClient extends Disposable {
  readonly socket: Socket;
  readonly queues: string;
  readonly buffers: string;
  /** Writes a word of a file. */
  store(file: 'queues' | 'buffers', at: number, value: number): void;
  /** Writes the names of the memory, as version 2 does. */
  introduce(names?: readonly [string, string]): void;
  /** Puts a message into the queue, in slices, and wakes the server. */
  send(stream: number, message: Buffer): void;
  close(stream: number): void;
  wake(): void;
  cut(file: 'queues' | 'buffers', bytes: number): void;
}

export function event(type: number, body: Buffer = Buffer.alloc(0), version = 2): Buffer {
  const header = Buffer.alloc(8);
  header.writeUInt32BE(8 + body.byteLength, 0);
  header.writeUInt16BE(0x7758, 4);
  header.writeUInt8(version, 6);
  header.writeUInt8(type, 7);
  return Buffer.concat([header, body]);
}

export function named(queues: string, buffers: string): Buffer {
  const parts = [queues, buffers].flatMap((path) => {
    const length = Buffer.alloc(2);
    length.writeUInt16BE(Buffer.byteLength(path));
    return [length, Buffer.from(path)];
  });
  return Buffer.concat(parts);
}

/** Connects, and makes the memory: 16 slices of 256 bytes, and queues of 64. */
export async function fileClient(path: string): Promise<FileClient> {
  const base = `/dev/shm/sidecall_test_${process.pid}_${randomBytes(6).toString('hex')}`;
  const names = { queues: `${base}_queue`, buffers: `${base}_buffer` };
  const files = {
    queues: openSync(names.queues, 'wx+', 0o600),
    buffers: openSync(names.buffers, 'wx+', 0o600),
  };
  const socket = await connect({ path, protocol: 'plain' });
  socket.on('error', () => undefined).resume();
  const store = (file: 'queues' | 'buffers', at: number, value: number): void => {
    const word = Buffer.alloc(4);
    word.writeUInt32LE(value >>> 0);
    writeSync(files[file], word, 0, 4, at);
  };
  const load = (file: 'queues' | 'buffers', at: number): number => {
    const word = Buffer.alloc(4);
    readSync(files[file], word, 0, 4, at);
    return word.readUInt32LE();
  };
  ftruncateSync(files.queues, 2 * half);
  store('queues', 0, capacity);
  store('queues', half, capacity);
  ftruncateSync(files.buffers, region + slices * stride);
  const list = [slices, slices, 0, (slices - 1) * stride, sliceBytes];
  store('buffers', 0, 1);
  store('buffers', 4, 36 + slices * stride);
  list.forEach((value, at) => void store('buffers', 8 + 4 * at, value));
  for (let at = 0; at < slices; at += 1) {
    store('buffers', region + at * stride, sliceBytes);
    if (at === slices - 1) break;
    store('buffers', region + at * stride + 12, (at + 1) * stride);
    store('buffers', region + at * stride + 16, 1);
  }
  let sent = 0;
  const put = (stream: number, offset: number, status: number): void => {
    const at = 24 + (sent % capacity) * 12;
    store('queues', at, stream);
    store('queues', at + 4, offset);
    store('queues', at + 8, status);
    sent += 1;
    store('queues', 12, sent);
  };
  /** Takes the first free slice; one process at a time does so in these tests. */
  const take = (): number => {
    const head = load('buffers', 16);
    store('buffers', 16, load('buffers', region + head + 12));
    store('buffers', 8, load('buffers', 8) - 1);
    return region + head;
  };
  const wake = (): void => void socket.write(event(1));
  return {
    socket,
    ...names,
    store,
    wake,
    introduce: ([queues, buffers] = [names.queues, names.buffers]) =>
      void socket.write(event(0, named(queues, buffers))),
    send(stream, message) {
      const offsets: number[] = [];
      for (let at = 0; at < message.byteLength; at += sliceBytes) offsets.push(take());
      offsets.forEach((offset, at) => {
        const part = message.subarray(at * sliceBytes, (at + 1) * sliceBytes);
        store('buffers', offset + 4, part.byteLength);
        writeSync(files.buffers, part, 0, part.byteLength, offset + 20);
        const next = offsets[at + 1];
        if (next !== undefined) store('buffers', offset + 12, next);
        store('buffers', offset + 16, next === undefined ? 2 : 3);
      });
      put(stream, offsets[0] as number, 0);
      wake();
    },
    close(stream) {
      put(stream, 0, 1);
      wake();
    },
    cut: (file, bytes) => ftruncateSync(files[file], bytes),
    [Symbol.dispose]() {
      socket.destroy();
      for (const fd of Object.values(files)) closeSync(fd);
      for (const name of Object.values(names)) rmSync(name, { force: true });
    },
  };
}
