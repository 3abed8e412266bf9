// A listener under attack, which reports its resources. Lines on its input: `report`, `exit`.
import { readdirSync, readFileSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { configure, listen } from '../../../dist/index.js';
import { Demo, handlers, say } from './demo.mjs';

const delays = monitorEventLoopDelay({ resolution: 1 });
delays.enable();
const events = {};
const { ringMemoryMaxBytes, ...options } = JSON.parse(process.argv[2]);
configure({ ringMemoryMaxBytes });
const listener = await listen({
  ...options,
  onEvent: ({ error }) => {
    events[error.code] = (events[error.code] ?? 0) + 1;
  },
});
listener.serve(Demo, handlers);
say({ path: listener.path });
process.stdin.on('data', async (line) => {
  const told = String(line).trim();
  if (told === 'report') {
    globalThis.gc?.();
    say({
      longestDelayMs: delays.max / 1e6,
      descriptors: readdirSync('/proc/self/fd').length,
      maps: readFileSync('/proc/self/maps', 'latin1').split('/memfd:').length - 1,
      residentMiB: process.memoryUsage.rss() / 2 ** 20,
      threads: readdirSync('/proc/self/task').length,
      sessions: listener.sessionCount,
      events,
    });
    delays.reset();
  } else if (told === 'exit') process.exit(0);
});
process.stdin.on('end', () => process.exit(0));
