// A helper that works on items. Arguments: its name, and how it behaves.
import { notification, parent, service, unary } from '../../../dist/index.js';

const [name = '', manner = ''] = process.argv.slice(2);
if (manner === 'crashes') process.exit(7);
const advised = process.env.SIDECALL_POLL_US;
const session = await parent();
if (manner === 'unwell') session.health.set('', 'not_serving');
if (manner === 'recovers') {
  session.health.set('', 'not_serving');
  setTimeout(() => session.health.set('', 'serving'), 300);
}
let slowness = 1;
const held = [];
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const Work = service('Work', {
  take: unary(),
  hang: unary(),
  note: notification(),
  slow: unary(),
  grow: unary(),
  polling: unary(),
});
session.serve(Work, {
  take: async ({ id, ms = 0 }) => {
    if (ms > 0) await pause(ms * slowness);
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
