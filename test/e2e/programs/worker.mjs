// A helper that works on items. Arguments: its name, how it behaves, and the file by which it says
// that it is unwell, or that lets it recover.
import { existsSync, writeFileSync } from 'node:fs';
import { notification, parent, service, unary } from '../../../dist/index.js';

const [name = '', manner = '', file] = process.argv.slice(2);
if (manner === 'crashes') process.exit(7);
const advised = process.env.SIDECALL_POLL_US;
const session = await parent();
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const looks = new Map();
const look = async (path) => {
  while (!existsSync(path)) await pause(5);
};
// One look for all that wait for a file.
const exists = (path) => {
  if (!looks.has(path)) looks.set(path, look(path));
  return looks.get(path);
};
if (manner === 'unwell' || manner === 'recovers') session.health.set('', 'not_serving');
if (manner === 'unwell' && file !== undefined) {
  // The other side watches the health of this process, and has been sent the first status.
  const looking = setInterval(() => {
    if (session.stats().handlers.running === 0) return;
    writeFileSync(file, '');
    clearInterval(looking);
  }, 5);
}
if (manner === 'recovers') void exists(file).then(() => session.health.set('', 'serving'));
let slowness = 1;
const held = [];
const Work = service('Work', {
  take: unary(),
  hang: unary(),
  note: notification(),
  slow: unary(),
  grow: unary(),
  polling: unary(),
});
session.serve(Work, {
  take: async ({ id, ms = 0, until }) => {
    if (ms > 0) await pause(ms * slowness);
    if (until !== undefined) await exists(until);
    return { id, name, pid: process.pid };
  },
  hang: () => new Promise(() => undefined),
  note: (ms) => pause(ms),
  polling: () => ({ advised, left: process.env.SIDECALL_POLL_US }),
  slow: (factor) => {
    slowness = factor;
  },
  grow: (mebibytes) => void held.push(Buffer.alloc(mebibytes * 1_048_576, 1)),
});
