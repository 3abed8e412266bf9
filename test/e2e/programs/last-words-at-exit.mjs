// A helper that says its last words, and ends in an orderly way at once behind them.
import { writeFileSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import { bytes, notification, parent, service, unary } from '../../../dist/index.js';

const session = await parent();
const { line } = session.client(service('Words', { line: notification() }));
const exit = () => process.exit(0);
const ends = {
  exit,
  'next tick': () => process.nextTick(exit),
  throw: () =>
    queueMicrotask(() => {
      throw new Error('on purpose');
    }),
  'exit listener': () => {
    // The first sends behind the flush, the second before it.
    process.on('exit', () => void line('listener'));
    process.prependListener('exit', () => void line('early listener'));
    exit();
  },
  'beforeExit listener': () => {
    process.once('beforeExit', () => void line('listener').then(exit));
    session.unref();
  },
};

async function speak({ way, messages, length, end }) {
  const text = '.'.repeat(length);
  const channel = way === 'channel' ? session.openChannel(bytes, { name: 'words' }) : undefined;
  for (let at = 0; at < messages; at += 1) {
    await (channel?.send(Buffer.from(text)) ?? line(text));
  }
  ends[end]();
}

/** Sends until nothing more is taken, writes into the file how many were, and exits. */
async function fill({ length, file }) {
  let taken = 0;
  for (let before = -1; before < taken; await setImmediate()) {
    before = taken;
    for (let at = 0; at < 100; at += 1)
      void line('.'.repeat(length)).then(() => (taken += 1), exit);
  }
  writeFileSync(file, `${taken}`);
  exit();
}

session.serve(
  service('LastWords', { speak: notification(), fill: notification(), answer: unary() }),
  {
    speak: (request) => void speak(request),
    // Behind the handler: what a handler of a notification sends may wait once it has resolved.
    fill: (request) => void setImmediate(request).then(fill),
    answer: ({ length, end }) => {
      const answer = '.'.repeat(length);
      queueMicrotask(() => queueMicrotask(() => process.nextTick(ends[end])));
      return answer;
    },
  },
);
