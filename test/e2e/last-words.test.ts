// Messages that a process had published before it was killed: all of them arrive, then the death.
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { spawnHelper } from '../../src/helper/spawn-helper.ts';
import { bytes } from '../../src/rpc/contract/codec.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';
import { programPath } from '../support/programs.ts';

const messages = 10_000;
const LastWords = service('LastWords', { speak: unary<{ messages: number }, object>() });

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
