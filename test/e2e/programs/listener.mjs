// Listens at a path, serves the demo, and prints its events. It collects its garbage on request, so
// that a test sees memory in use and not what has not been collected yet.
import { setTimeout } from 'node:timers/promises';
import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { listen, SidecallError } from '../../../dist/index.js';
import { Demo, handlers, say } from './demo.mjs';

const options = JSON.parse(process.argv[2]);
const drop = process.argv[3];
if (drop !== undefined) {
  process.setgroups([]);
  process.setgid(Number(drop));
  process.setuid(Number(drop));
}
try {
  const listener = await listen({
    ...options,
    onEvent: ({ type, error, peer }) => say({ event: type, code: error.code, peer }),
  });
  listener.serve(Demo, handlers);
  say({ path: listener.path, pid: process.pid });
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc');
  process.stdin.on('data', async (line) => {
    if (String(line).trim() === 'collect') {
      // Several times, because the memory of what is collected goes back in the turns after it.
      let outsideHeap = Number.POSITIVE_INFINITY;
      let usedInHeap = Number.POSITIVE_INFINITY;
      for (let round = 0; round < 10; round += 1) {
        collect();
        await setTimeout(20);
        const { used_heap_size, total_physical_size } = getHeapStatistics();
        usedInHeap = Math.min(usedInHeap, used_heap_size);
        outsideHeap = Math.min(outsideHeap, process.memoryUsage.rss() - total_physical_size);
      }
      say({ usedInHeap, outsideHeap });
    }
    if (String(line).trim() === 'close') {
      await listener.close();
      say({ closed: true });
      process.exit(0);
    }
  });
  process.stdin.on('end', () => process.exit(0));
} catch (error) {
  const isOurs = SidecallError.is(error);
  say({ failed: isOurs ? error.code : String(error), message: error.message });
  process.exit(3);
}
