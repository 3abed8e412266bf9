// One generation of a server at a path. Arguments: the path, its number, how it behaves, and the
// deadline of its hand-over. Prints what it is doing; each handled id is written to the descriptor
// 3, a file.
import { existsSync, writeSync } from 'node:fs';
import { listen, service, unary } from '../../../dist/index.js';

const [path, number, manner = '', deadlineMs = '600000'] = process.argv.slice(2);
const Count = service('Count', { take: unary(), hold: unary(), where: unary() });
const say = (what) => console.log(JSON.stringify(what));
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const listener = await listen({
  path,
  takeOver: {
    ready: async (held) => {
      if (manner === 'crashes') process.exit(9);
      if (manner === 'hangs') await new Promise(() => undefined);
      held.serve(Count, {
        take: async (id) => {
          writeSync(3, `${id} ${number}\n`);
          if (id % 5 === 0) await pause(id % 4);
          return id;
        },
        hold: async (file) => {
          while (!existsSync(file)) await pause(5);
        },
        where: () => Number(number),
      });
    },
  },
});
say({ listening: listener.epoch });
say({ handedOver: await listener.handOver({ deadlineMs: Number(deadlineMs) }) });
process.exit(0);
