// The events of shmipc-go on the socket.
import { describe, expect, it } from 'vitest';
import {
  encodeClose,
  encodeData,
  encodeWake,
  type SocketEvent,
  SocketEventReader,
} from '../../src/shmipc/socket-events.ts';
import { event } from '../support/shmipc-files.ts';

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

function read(bytes: Buffer, step: number, isServer = true): SocketEvent[] {
  const reader = new SocketEventReader(3, isServer);
  const events: SocketEvent[] = [];
  for (let at = 0; at < bytes.byteLength; at += step) {
    events.push(...reader.push(bytes.subarray(at, at + step)));
  }
  expect(reader.isMidway).toBe(false);
  return events;
}

describe('events of shmipc-go', () => {
  it('are written as shmipc-go writes them', () => {
    expect(hex(encodeWake(3))).toBe('0000000877580301');
    expect(hex(encodeWake(2))).toBe('0000000877580201');
    expect(hex(encodeClose(3, 2))).toBe('0000000c7758030200000002');
    const data = encodeData(3, 2, Buffer.from('hello'));
    expect(hex(data)).toBe('000000157758030300000002000000006' + '8656c6c6f');
  });

  it.each([1, 2, 3, 7, 8, 9, 16, 1_000])('are read in pieces of %d bytes', (step) => {
    const all = [
      encodeWake(3),
      encodeData(3, 7, Buffer.from('some bytes')),
      encodeData(3, 7, Buffer.alloc(0)),
      encodeClose(3, 7),
      event(9, Buffer.alloc(8), 3),
      encodeWake(3),
    ];
    const events = read(Buffer.concat(all), step);
    const data = events.filter((one) => one.type === 'data');
    expect(Buffer.concat(data.map((one) => one.bytes)).toString()).toBe('some bytes');
    expect(data.every(({ stream, status }) => stream === 7 && status === 0)).toBe(true);
    expect(events.filter(({ type }) => type !== 'data')).toEqual([
      { type: 'wake' },
      { type: 'close', stream: 7 },
      { type: 'wake' },
    ]);
  });

  it('a client reads on behind the restart of a server', () => {
    const events = read(Buffer.concat([event(8, Buffer.alloc(8), 3), encodeWake(3)]), 5, false);
    expect(events).toEqual([{ type: 'wake' }]);
  });

  it.each<[string, Buffer]>([
    ['another magic', Buffer.from('0000000877590301', 'hex')],
    ['another version', encodeWake(2)],
    ['a type that is none', event(10, Buffer.alloc(0), 3)],
    ['an event of the handshake', event(4, Buffer.alloc(0), 3)],
    ['a restart of a client', event(8, Buffer.alloc(8), 3)],
    ['a length below the header', Buffer.from('0000000777580301', 'hex')],
    ['a wake with a body', event(1, Buffer.alloc(1), 3)],
    ['a close without a stream', event(2, Buffer.alloc(0), 3)],
    ['data without a header', event(3, Buffer.alloc(7), 3)],
  ])('%s is refused', (_, bytes) => {
    const broken = expect.objectContaining({ code: 'ERR_SIDECALL_PROTOCOL' });
    expect(() => read(bytes, 1_000)).toThrow(broken as never);
  });
});
