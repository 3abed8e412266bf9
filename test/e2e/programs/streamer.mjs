// A helper with streams; its contract is in flow.mjs.
import { writeFileSync } from 'node:fs';
import { parent } from '../../../dist/index.js';
import { Flow } from './flow.mjs';

const session = await parent();

/** Bytes that this process holds, after a collection. */
function heldBytes() {
  globalThis.gc?.();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

const offer = { sent: 0, mostBytes: 0, firstBytes: 0 };

session.serve(Flow, {
  async *count({ to }) {
    for (let at = 1; at <= to; at += 1) yield at;
  },
  async *download({ messages, bytes }, { signal }) {
    const message = new Uint8Array(bytes);
    globalThis.gc?.();
    offer.firstBytes = heldBytes();
    offer.mostBytes = offer.firstBytes;
    offer.sent = 0;
    for (let at = 0; at < messages && !signal.aborted; at += 1) {
      offer.sent = at + 1;
      yield message;
    }
  },
  async swallow(messages) {
    let count = 0;
    for await (const _ of messages) count += 1;
    return { count };
  },
  async *echo(messages) {
    yield* messages;
  },
  offered: () => {
    offer.mostBytes = Math.max(offer.mostBytes, heldBytes());
    return offer;
  },
  busy: ({ ms, begins }, ctx) => {
    const until = performance.now() + ms;
    const answers = new Set([String(ctx.cancelledNow())]);
    if (begins !== undefined) writeFileSync(begins, '');
    let looks = 0;
    while (performance.now() < until) {
      looks += 1;
      const answer = ctx.cancelledNow();
      answers.add(String(answer));
      if (answer === true) break;
      stand(1);
    }
    busy = { looks, answers: [...answers], aborted: ctx.signal.aborted };
    return busy;
  },
  lastBusy: () => busy,
  add: ({ a, b }) => ({ sum: a + b }),
  block: ({ ms }) => stand(ms),
  exit: () => process.kill(process.pid, 'SIGKILL'),
});
let busy;

/** The event loop stands still, and takes no processor meanwhile. */
function stand(ms) {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

void (async () => {
  for await (const channel of session.duplexes({ name: 'echo' })) channel.pipe(channel);
})();
