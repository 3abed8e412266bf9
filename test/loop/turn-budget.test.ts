// The share of arriving frames of one turn of the event loop, on the socket lane;
// test/session/hostile-ring.test.ts has the rings.

import { once } from 'node:events';
import { createConnection, createServer, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { tuning } from '../../src/base/limits/internal-limits.ts';
import { systemLoop } from '../../src/loop/event-loop.ts';
import { streamOpener } from '../../src/uds/net-socket.ts';
import { SocketTransport } from '../../src/uds/socket-transport.ts';
import { HeaderWriter } from '../../src/wire/frame-header.ts';
import type { FrameReceiver } from '../../src/wire/transport.ts';
import { scratchDirectory } from '../support/programs.ts';

/** Frames as a peer sends them: pings, four bytes of length and their header. */
function frames(count: number): Buffer {
  const header = new HeaderWriter().ping(0);
  const one = Buffer.alloc(4 + header.byteLength);
  one.writeUInt32LE(header.byteLength);
  one.set(header, 4);
  return Buffer.concat(Array.from({ length: count }, () => one));
}

interface End {
  readonly transport: SocketTransport;
  readonly near: Socket;
  /** The stream that the other side writes to. */
  readonly far: Socket;
  count: number;
  ended: Promise<unknown>;
}

const sockets: Socket[] = [];
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
});

/**
 * A transport, and the socket of a peer that has already sent `bytes`. `onFrame` is called for each
 * frame.
 */
async function open(bytes: Buffer, onFrame: () => void): Promise<End> {
  using scratch = scratchDirectory();
  const server = createServer({ pauseOnConnect: true }).listen(scratch.file('s'));
  await once(server, 'listening');
  const far = createConnection(scratch.file('s'));
  const [near] = (await once(server, 'connection')) as [Socket];
  server.close();
  sockets.push(near, far);
  await new Promise((done) => far.write(bytes, done));
  const transport = new SocketTransport(streamOpener(near), 1);
  let onEnd: (error: unknown) => void = () => undefined;
  const end: End = { transport, near, far, count: 0, ended: new Promise((done) => (onEnd = done)) };
  const receiver: FrameReceiver = {
    onFrame: () => {
      end.count += 1;
      onFrame();
    },
    placeFor: () => undefined,
    takeAhead: () => false,
    onRoom: () => undefined,
    onEnd,
  };
  transport.start(receiver);
  return end;
}

/** Frames of one turn of the loop, for each turn, until there are no more. */
async function countTurns(total: () => number, wanted: number): Promise<number[]> {
  const turns: number[] = [];
  for (let before = 0; before < wanted; ) {
    await new Promise((done) => setImmediate(done));
    const now = total();
    if (now > before) turns.push(now - before);
    before = now;
  }
  return turns;
}

function burn(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

describe('one turn of the loop on the socket lane', () => {
  it('hands out no more frames than a turn may have, and all of them in the end', async () => {
    const end = await open(frames(5_000), () => undefined);
    const turns = await countTurns(() => end.count, 5_000);
    // Beside what a read has handed out the poller may go on, once.
    expect(Math.max(...turns)).toBeLessThanOrEqual(2 * tuning.drainRecordsMax);
    expect(end.count).toBe(5_000);
  });

  it('is not held by handlers that take long', async () => {
    const end = await open(frames(100), () => burn(1));
    const turns = await countTurns(() => end.count, 100);
    // Two milliseconds, looked at after sixteen frames; twice, see above.
    expect(Math.max(...turns)).toBeLessThanOrEqual(2 * 17);
    expect(end.count).toBe(100);
  });

  it('is shared by all sessions of the thread', async () => {
    const ends: End[] = [];
    let count = 0;
    const work = (): void => {
      count += 1;
      burn(1);
    };
    for (let at = 0; at < 40; at += 1) ends.push(await open(frames(1), work));
    await countTurns(() => count, 40);
    // All of them have something at once.
    await Promise.all(ends.map(({ far }) => new Promise((done) => far.write(frames(20), done))));
    const turns = await countTurns(() => count - 40, 40 * 20);
    console.log(`frames of a millisecond each in one turn: ${Math.max(...turns)} at most`);
    // 2 ms and the rest of one session for reads, and the same for the poller: not 40 sessions.
    expect(Math.max(...turns)).toBeLessThanOrEqual(2 * (tuning.pollTurnMaxMs + 17));
  });

  it('is the same for what lies in memory when its sender has gone', async () => {
    const end = await open(frames(3_000), () => undefined);
    end.far.destroy();
    const turns = await countTurns(() => end.count, 3_000);
    expect(Math.max(...turns)).toBeLessThanOrEqual(2 * tuning.drainRecordsMax);
    expect(await end.ended).toBeUndefined();
    expect(end.count).toBe(3_000);
  });

  it('says that the peer ended in the middle of a frame, behind what came before', async () => {
    const whole = frames(600);
    const end = await open(whole.subarray(0, whole.byteLength - 1), () => undefined);
    end.far.end();
    expect(await end.ended).toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE' });
    expect(end.count).toBe(599);
  });

  it('can be closed while it hands out what came before the end of its peer', async () => {
    const end = await open(frames(3_000), () => undefined);
    while (end.count === 0) await new Promise((done) => setImmediate(done));
    end.far.destroy();
    end.near.destroy(); // as a write that fails does
    await once(end.near, 'close');
    expect(end.count).toBeLessThan(3_000);
    await end.transport.close();
    expect(await end.ended).toBeUndefined();
  });

  it('ends at once, with what waits, when it is destroyed or closed by us', async () => {
    for (const close of [
      (end: End) => end.transport.destroy(),
      (end: End) => void end.transport.close(),
    ]) {
      const end = await open(frames(3_000), () => undefined);
      while (end.count === 0) await new Promise((done) => setImmediate(done));
      close(end);
      const { count } = end;
      await new Promise((done) => setTimeout(done, 20));
      expect(count).toBeLessThan(3_000);
    }
  });
});

it('a session gets what is left of a turn, a little at least, and nothing behind its end', () => {
  const { pollTurnMaxMs, drainMaxMs, drainLeastMs } = tuning;
  expect(systemLoop.budget.shareLeftMs(0)).toBe(Math.min(pollTurnMaxMs, drainMaxMs));
  expect(systemLoop.budget.shareLeftMs(pollTurnMaxMs / 2)).toBe(pollTurnMaxMs / 2);
  expect(systemLoop.budget.shareLeftMs(pollTurnMaxMs - drainLeastMs / 2)).toBe(drainLeastMs);
  expect(systemLoop.budget.shareLeftMs(pollTurnMaxMs)).toBe(0);
});
