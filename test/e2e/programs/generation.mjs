// One generation of a server at a path. Arguments: the path, its number, and how it behaves. Prints
// what it is doing; each handled id is written to the descriptor 3, a file.
import { writeSync } from 'node:fs';
import { listen, service, unary } from '../../../dist/index.js';

const [path, number, manner = ''] = process.argv.slice(2);
const Count = service('Count', { take: unary(), where: unary() });
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
        where: () => Number(number),
      });
    },
  },
});
say({ listening: listener.epoch });
say({ handedOver: await listener.handOver({ deadlineMs: 5_000 }) });
process.exit(0);
