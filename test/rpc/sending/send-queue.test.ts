import { describe, expect, it } from 'vitest';
import { MethodCounters } from '../../../src/rpc/counting/method-counters.ts';
import type { SendingStream } from '../../../src/rpc/sending/outgoing-messages.ts';
import { SendQueue } from '../../../src/rpc/sending/send-queue.ts';
import { CallKind, FrameFlag, FrameType } from '../../../src/wire/frame-header.ts';
import type { Bulk, Transport } from '../../../src/wire/transport.ts';

/** Takes what it is told to, and remembers the order: type of the frame and slot. */
class FakeTransport implements Transport {
  readonly lane = 'loopback';
  readonly frameMaxBytes = 65_656;
  readonly consumedPosition = undefined;
  sentPosition = 0;
  sent: string[] = [];
  /** Length of each payload, and its queue. */
  pieces: [number, Bulk][] = [];
  room = 0;
  bulkRoom = 0;
  start(): void {}
  trySend(header: Uint8Array, payload: Uint8Array | string | undefined, bulk: Bulk): boolean {
    if (this.room === 0 || (bulk && this.bulkRoom === 0)) return false;
    this.room -= 1;
    if (bulk) this.bulkRoom -= 1;
    this.sentPosition += header.byteLength + (payload?.length ?? 0);
    this.pieces.push([payload?.length ?? 0, bulk]);
    this.sent.push(`${header[0]}:${header[4]}`);
    return true;
  }
  async close(): Promise<void> {}
  destroy(): void {}
  ref(): void {}
  unref(): void {}
}

describe('a queue that is held', () => {
  it('lets nothing go at once, also when the transport has room again', () => {
    const transport = new FakeTransport();
    const ignore = (): void => undefined;
    const queue = new SendQueue(transport, ignore, ignore, ignore);
    expect(queue.isFree).toBe(true);
    queue.hold();
    expect(queue.isFree).toBe(false);
    transport.room = 1;
    queue.onRoom();
    expect(queue.isFree).toBe(false);
  });
});

function streamAt(slot: number): SendingStream {
  return {
    slot,
    generation: 1,
    isBorrowed: false,
    isBulk: false,
    isAnswer: false,
    counters: new MethodCounters('method', CallKind.unary, true),
    line: undefined,
    queued: 0,
    isWritten: false,
    beginsAtOnce: false,
    sentPosition: 0,
    onDetached: (error) => expect.fail(error.message),
  };
}

function scene(): {
  transport: FakeTransport;
  sendQueue: SendQueue;
  send: (slot: number, bytes: number, stream?: SendingStream) => SendingStream;
} {
  const transport = new FakeTransport();
  const sendQueue = new SendQueue(
    transport,
    () => undefined,
    (_stream, error) => expect.fail(error.message),
    () => undefined,
  );
  return {
    transport,
    sendQueue,
    send: (slot, bytes, stream = streamAt(slot)) => {
      const header = sendQueue.header.message(FrameFlag.end, slot, 1, bytes);
      sendQueue.send(stream, header, new Uint8Array(0), new Uint8Array(bytes), bytes);
      return stream;
    },
  };
}

const { message, fragment, credit } = FrameType;

describe('the send queue', () => {
  it('lets a small message pass while a long one waits for its turn', () => {
    const { transport, sendQueue, send } = scene();
    transport.room = 100;
    transport.bulkRoom = 2;
    send(1, 10 * 65_536);
    expect(transport.sent).toEqual([`${message}:1`, `${fragment}:1`]);
    send(2, 100);
    expect(transport.sent.at(-1)).toBe(`${message}:2`);
    expect(sendQueue.hasRoom(false, 65_536)).toBe(true);
    expect(sendQueue.hasRoom(true, 65_536)).toBe(false);
  });

  it('lets neither small messages nor long ones starve the others', () => {
    const { transport, sendQueue, send } = scene();
    send(1, 4 * 65_536);
    for (let slot = 2; slot < 8; slot += 1) send(slot, 100);
    transport.room = 100;
    transport.bulkRoom = 100;
    sendQueue.onRoom();
    const kinds = transport.sent.map((frame) => (frame.endsWith(':1') ? 'long' : 'small'));
    // Behind the first small message the rest of the long one goes in 12 short pieces.
    expect(kinds).toEqual([
      ...Array.from({ length: 6 }, () => ['long', 'small']).flat(),
      ...Array.from({ length: 7 }, () => 'long'),
    ]);
  });

  it('cuts long messages shorter while short ones go beside them, and for a mebibyte more', () => {
    const { transport, sendQueue, send } = scene();
    const pump = (frames: number): [number, Bulk][] => {
      transport.pieces = [];
      transport.room = frames;
      transport.bulkRoom = frames;
      sendQueue.onRoom();
      return transport.pieces;
    };
    send(2, 4 * 1024 * 1024);
    expect(pump(2)).toEqual([
      [65_536, true],
      [65_536, true],
    ]);
    transport.room = 1;
    send(3, 100); // it goes at once
    expect(pump(64)).toEqual(Array.from({ length: 64 }, () => [16_384, 'shared']));
    expect(pump(2)).toEqual([
      [65_536, true],
      [65_536, true],
    ]);
    send(4, 100); // it waits, and the two queues take turns
    expect(pump(3)).toEqual([
      [65_536, true],
      [100, false],
      [16_384, 'shared'],
    ]);
  });

  it('never cuts metadata, nor a frame that ends a call, and cuts the rest of bulk streams short', () => {
    const { transport, sendQueue, send } = scene();
    const bulk = (slot: number): SendingStream => ({ ...streamAt(slot), isBulk: true });
    const sizes = { metadataBytes: 20_000, textBytes: 0 };
    const nothing = new Uint8Array(0);
    const metadata = new Uint8Array(20_000);
    send(2, 4 * 1024 * 1024);
    transport.room = 1;
    send(3, 100); // long messages are cut short from here on
    const opened = bulk(4);
    const open = sendQueue.header.message(FrameFlag.end, 4, 1, 30_000);
    sendQueue.send(opened, open, metadata, new Uint8Array(30_000), 30_000);
    const ended = bulk(5);
    sendQueue.send(ended, sendQueue.header.end(0, 5, 1, 2, sizes), metadata, nothing, 0);
    send(6, 30_000, bulk(6)); // it waits behind others
    transport.pieces = [];
    transport.sent = [];
    transport.room = 12;
    transport.bulkRoom = 12;
    sendQueue.onRoom();
    const lengths = (slot: number): number[] =>
      transport.pieces.filter((_, at) => transport.sent[at]?.endsWith(`:${slot}`)).map(([n]) => n);
    expect(lengths(4)).toEqual([20_000, 16_384, 13_616]);
    expect(lengths(5)).toEqual([20_000]);
    expect(lengths(6)).toEqual([16_384, 13_616]);
  });

  it('cuts a message of a bulk stream short where nothing waits, too', () => {
    const { transport, sendQueue, send } = scene();
    transport.room = 100;
    transport.bulkRoom = 4;
    send(2, 10 * 65_536);
    send(3, 100);
    transport.bulkRoom = 100;
    sendQueue.onRoom(); // the rest of the long message, in short pieces up to a mebibyte
    transport.pieces = [];
    send(4, 30_000, { ...streamAt(4), isBulk: true });
    expect(transport.pieces).toEqual([
      [16_384, 'shared'],
      [13_616, 'shared'],
    ]);
  });

  it('gives long messages of several streams a piece each in turn', () => {
    const { transport, sendQueue, send } = scene();
    send(1, 3 * 65_536);
    send(2, 3 * 65_536);
    transport.room = 100;
    transport.bulkRoom = 100;
    sendQueue.onRoom();
    expect(transport.sent.map((frame) => frame.split(':')[1])).toEqual([
      '1',
      '2',
      '1',
      '2',
      '1',
      '2',
    ]);
  });

  it('drops a stream that was cleared before, as at the end of a session', () => {
    const { sendQueue, send } = scene();
    const stream = send(1, 100);
    sendQueue.clear();
    expect(sendQueue.remove(stream)).toBe(0);
    expect(sendQueue.isEmpty).toBe(true);
  });

  it('gives back what dropped messages of a stream had taken of the window, but for begun ones', () => {
    const { transport, sendQueue, send } = scene();
    const header = (slot: number, size: number): Uint8Array =>
      sendQueue.header.message(FrameFlag.streamed, slot, 1, size);
    const stream = send(1, 10);
    sendQueue.send(
      stream,
      header(1, 3 * 65_536),
      new Uint8Array(0),
      new Uint8Array(3 * 65_536),
      3 * 65_536,
    );
    sendQueue.send(stream, header(1, 100), new Uint8Array(0), new Uint8Array(100), 100);
    transport.room = 2;
    transport.bulkRoom = 1;
    sendQueue.onRoom(); // the first whole, one piece of the second
    expect(sendQueue.remove(stream)).toBe(164);
  });

  it('sends control first, whatever waits', () => {
    const { transport, sendQueue, send } = scene();
    send(1, 100);
    send(2, 200_000);
    sendQueue.sendControl(sendQueue.header.credit(0, 0, 0, 5));
    transport.room = 100;
    transport.bulkRoom = 100;
    sendQueue.onRoom();
    expect(transport.sent[0]).toBe(`${credit}:0`);
  });

  it('keeps the messages of one stream in their order, small behind long', () => {
    const { transport, sendQueue, send } = scene();
    transport.room = 100;
    transport.bulkRoom = 1;
    const stream = send(1, 3 * 65_536);
    send(1, 10, stream);
    send(2, 10);
    expect(transport.sent).toEqual([`${message}:1`, `${message}:2`]);
    transport.bulkRoom = 100;
    sendQueue.onRoom();
    const pieces = Array.from({ length: 8 }, () => `${fragment}:1`);
    expect(transport.sent.slice(2)).toEqual([...pieces, `${message}:1`]);
    expect(sendQueue.isEmpty).toBe(true);
    expect(sendQueue.queuedBytes).toBe(0);
  });

  it('forgets a stream that ends early, in either queue', () => {
    const { transport, sendQueue, send } = scene();
    const long = send(1, 200_000);
    const small = send(2, 100);
    sendQueue.remove(long);
    sendQueue.remove(small);
    expect(sendQueue.queuedBytes).toBe(0);
    transport.room = 100;
    transport.bulkRoom = 100;
    sendQueue.onRoom();
    expect(transport.sent).toEqual([]);
  });
});
