// Numbers at which streams and byte streams once stopped, with the limits that a session has by
// default.
import { describe, expect, it } from 'vitest';
import { serverStream, service } from '../../src/rpc/contract/service.ts';
import { lanes } from '../support/pairs.ts';

const Files = service('Files', { list: serverStream<void, string>() });

describe.each(lanes)('by default limits over the $lane', ({ openPair }) => {
  it('F4 F5 400 lists of which one message is taken, 65 that are not read, and 200 byte streams destroyed unread stop nothing', async () => {
    await using pair = await openPair();
    pair.far.serve(Files, {
      async *list() {
        for (let at = 0; at < 100_000; at += 1) yield 'x'.repeat(1000);
      },
    });
    const files = pair.near.client(Files);
    const read = async (): Promise<number> => {
      let seen = 0;
      for await (const text of files.list()) {
        seen += text.length;
        if (seen === 2_000_000) break;
      }
      return seen;
    };
    for (let at = 0; at < 400; at += 1) await files.list().next();
    const unread = Array.from({ length: 65 }, () => files.list());
    for (const list of unread) await list.next();
    expect(await read()).toBe(2_000_000);
    for (const list of unread) list.cancel();
    const arrivals = pair.far.duplexes({ name: 'd' });
    for (let at = 0; at < 200; at += 1) {
      const ours = pair.near.openDuplex({ name: 'd' });
      const theirs = (await arrivals.next()).value;
      for (const end of [ours, theirs]) end?.on('error', () => undefined);
      ours.write(Buffer.alloc(200_000));
      await new Promise((resolve) => theirs?.once('readable', resolve));
      for (const end of [ours, theirs]) end?.destroy();
    }
    await arrivals.return?.();
    expect(await read()).toBe(2_000_000);
  });
});
