// A program that stands still, in one of five ways: unanswered, unread, window, blocked, leases.
import { setTimeout as pause } from 'node:timers/promises';
import { spawnHelper } from 'sidecall';
import { Index } from './contract.mjs';

const kept = [];
const faults = {
  /** A handler never answers. */
  unanswered: (index) => index.find('sidecall'),
  /** A stream is begun, and its reader stands still after the first message. */
  async unread(index) {
    for await (const { page } of index.pages()) {
      console.log(`page ${page}`);
      await new Promise(() => undefined);
    }
  },
  /** More is sent than the helper takes: a window of the session is used up. */
  async window(index) {
    for (let line = 1; ; line += 1) {
      await index.log('x'.repeat(10_000));
      console.log(`line ${line} was taken`);
    }
  },
  /** The event loop of the helper is blocked. */
  async blocked(index) {
    const rebuilt = index.rebuild();
    await index.count();
    return rebuilt;
  },
  /** Leases are kept and never released: later ones are copies, and the memory grows. */
  async leases(index) {
    for (;;) {
      kept.push(await index.thumbnail(64_000));
      await pause(50);
    }
  },
};

const [fault] = process.argv.slice(2);
const run = faults[fault];
if (run === undefined) {
  console.error(`usage: node main.mjs ${Object.keys(faults).join('|')}`);
  process.exit(2);
}
const program = new URL('helper.mjs', import.meta.url);
const helper = await spawnHelper(program, [], { leases: 'in-place-trusted' });
console.log(`process ${process.pid}, its helper ${helper.pid}: ${fault} …`);
await run(helper.client(Index));
await helper.stop();
