// The helper, with four of the five faults.
import { parent } from 'sidecall';
import { Index } from './contract.mjs';

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const session = await parent({ blockAreaBytes: 1_048_576 });

session.serve(Index, {
  count: () => 3,
  // The fault `unanswered`: the promise is never settled.
  find: () => new Promise(() => undefined),
  async *pages() {
    for (let page = 0; page < 1_000; page += 1) yield { page, text: 'x'.repeat(10_000) };
  },
  // The fault `window`: a notification takes a minute, and its bytes count until then.
  log: () => pause(60_000),
  // The fault `blocked`: a loop without a pause.
  rebuild() {
    const until = Date.now() + 60_000;
    while (Date.now() < until);
    return true;
  },
  thumbnail(size, ctx) {
    const block = ctx.allocate(size);
    block.bytes.fill(7);
    return block;
  },
});
