// Messages that a process had sent before it was killed, or before it ended in an orderly way: all
// of them arrive, then the death.
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { spawnHelper } from '../../src/helper/spawn-helper.ts';
import { bytes } from '../../src/rpc/contract/codec.ts';
import { notification, service, unary } from '../../src/rpc/contract/service.ts';
import { programPath } from '../support/programs.ts';
import { rounds } from '../support/rounds.ts';

const messages = 10_000;
const LastWords = service('LastWords', { speak: unary<{ messages: number }, object>() });
const Words = service('Words', { line: notification<string>() });
const AtExit = service('LastWords', {
  speak: notification<{ way: string; messages: number; length: number; end: string }>(),
  fill: notification<{ length: number; file: string }>(),
  answer: unary<{ length: number; end: string }, string>(),
});
const lanes = ['ring', 'socket'] as const;

const sizes = [
  { messages: 1, length: 10 },
  { messages: 10, length: 20_000 },
  { messages: 1_000, length: 200 },
  { messages: 2, length: 1_000_000 },
  { messages: 1, length: 200_000 },
];
const orderly = ['exit', 'next tick', 'throw', 'exit listener', 'beforeExit listener'];
const partings = lanes
  .flatMap((lane) => ['notification', 'channel'].map((way) => ({ lane, way })))
  .flatMap((path) => orderly.map((end) => ({ ...path, end })))
  .map((parting, at) => ({ ...parting, at }));

/** True once a process has ended and waits to be reaped, or is gone. */
function isDead(pid: number): boolean {
  try {
    const [, fields = ''] = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ');
    return fields.startsWith('Z');
  } catch {
    return true;
  }
}

describe('a helper that is killed behind 10,000 messages', () => {
  it.each([
    { lane: 'ring', reads: 'before and after its death' },
    { lane: 'socket', reads: 'before and after its death' },
    { lane: 'ring', reads: 'only after its death' },
  ] as const)('has all of them delivered by the $lane, read $reads', async ({ lane, reads }) => {
    const limits = { streamWindowBytes: 4_194_304 };
    const args = [programPath('last-words.mjs')];
    const helper = await spawnHelper(process.execPath, args, { lane, limits });
    const { session, pid } = helper;
    const accepted = session.channels(bytes, { name: 'words' });
    await session.client(LastWords).speak({ messages });
    const until = performance.now() + 60_000;
    if (reads === 'only after its death') while (!isDead(pid) && performance.now() < until);
    const { value: channel } = await accepted.next();
    const seen: number[] = [];
    let failure: unknown;
    try {
      for await (const message of channel ?? []) seen.push(Buffer.from(message).readUInt32LE(0));
    } catch (error) {
      failure = error;
    }
    expect(seen).toEqual(Array.from({ length: messages }, (_, at) => at));
    expect(failure).toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE' });
    await helper.exited;
  });
});

/** A helper, and the lengths of the words that it says until it has ended. */
async function startAtExit(lane: 'ring' | 'socket', options: readonly string[] = []) {
  const args = [...options, programPath('last-words-at-exit.mjs')];
  const helper = await spawnHelper(process.execPath, args, { lane });
  const heard: (number | string)[] = [];
  const note = (text: string): unknown => heard.push(/^\.+$/.test(text) ? text.length : text);
  helper.session.serve(Words, { line: note });
  const channels = (async () => {
    for await (const channel of helper.session.channels(bytes, { name: 'words' })) {
      try {
        for await (const message of channel) heard.push(message.length);
      } catch {
        // the end of the peer, behind its last message
      }
    }
  })().catch(() => undefined);
  return { helper, heard, channels };
}

describe('a helper that ends in an orderly way', () => {
  it.each(partings)('$end, $lane, $way: all that it had sent arrives', async (parting) => {
    const { lane, way, end, at } = parting;
    const listeners = ['early listener', 'listener'].slice(end === 'exit listener' ? 0 : 1);
    for (let turn = 0; turn < rounds(sizes.length, 1); turn += 1) {
      // A listener of the exit has what is left of the window: nothing of the peer arrives then.
      const fit = end.includes('listener') ? sizes.slice(0, 3) : sizes;
      const { messages, length } = fit[(at + turn) % fit.length] as (typeof sizes)[number];
      const { helper, heard, channels } = await startAtExit(lane);
      await helper.session.client(AtExit).speak({ way, messages, length, end });
      await helper.exited;
      await helper.session.closed;
      await channels;
      const said = end.includes('listener') ? listeners : [];
      expect(heard.filter((word) => word === length)).toHaveLength(messages);
      expect(heard.filter((word) => word !== length)).toEqual(said);
    }
  });

  it.each(
    lanes.flatMap((lane) =>
      ['process.exit(7)', '{ throw new Error("a fault of an earlier listener") }'].map((act) => ({
        lane,
        act,
      })),
    ),
  )(
    'with an earlier listener that does $act, $lane: all that it had sent arrives',
    async (made) => {
      const { lane, act } = made;
      const earlier = `data:text/javascript,process.on("exit", () => ${act})`;
      const { helper, heard } = await startAtExit(lane, ['--import', earlier]);
      const said = { way: 'notification', messages: 20, length: 20_000, end: 'exit' };
      await helper.session.client(AtExit).speak(said);
      await helper.exited;
      await helper.session.closed;
      expect(heard).toEqual(Array.from({ length: 20 }, () => 20_000));
    },
  );

  it.each(lanes.flatMap((lane) => [1_000, 60_000, 200_000].map((length) => ({ lane, length }))))(
    'has filled the $lane of a parent that computes by $length bytes each: all that was taken arrives',
    async ({ lane, length }) => {
      const { helper, heard } = await startAtExit(lane);
      const file = join(mkdtempSync(join(tmpdir(), 'words-')), 'taken');
      await helper.session.client(AtExit).fill({ length, file });
      await setImmediate();
      while (!existsSync(file) || readFileSync(file, 'utf8') === '');
      await helper.exited;
      await helper.session.closed;
      expect(heard.length).toBeGreaterThanOrEqual(Number(readFileSync(file, 'utf8')));
      expect(heard.length).toBeGreaterThan(length === 1_000 ? 100 : 0);
      rmSync(dirname(file), { recursive: true });
    },
  );

  it.each(lanes.flatMap((lane) => [3, 60_000].map((length) => ({ lane, length }))))(
    'ends a tick behind its answer of $length bytes: the $lane delivers it',
    async ({ lane, length }) => {
      const { helper } = await startAtExit(lane);
      const answer = await helper.session.client(AtExit).answer({ length, end: 'exit' });
      expect(answer.length).toBe(length);
      await helper.exited;
    },
  );

  it.each(lanes)('ends a tick behind an answer that the %s does not take at once', async (lane) => {
    const { helper } = await startAtExit(lane);
    const call = helper.session.client(AtExit).answer({ length: 4_000_000, end: 'exit' });
    await setImmediate();
    while (!isDead(helper.pid)); // what is read meanwhile would make room for more
    await expect(call).rejects.toMatchObject({
      code: 'ERR_SIDECALL_PEER_GONE',
      delivered: 'unknown', // a part of an answer is none
    });
    await helper.exited;
  });
});
