// A program to look into: a session that calls all the time, one whose stream is not read, and one
// with calls that fail, that take long, and that are never answered. Prints its pid.
import { connect, listen, RpcError, serverStream, service, unary } from '../../../dist/index.js';

const Desk = service('Desk', {
  add: unary(),
  search: unary(),
  refuse: unary(),
  forget: unary(),
  rows: serverStream(),
});
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const [path, speed = 'slow'] = process.argv.slice(2);
const listener = await listen({ path });
listener.serve(Desk, {
  add: ({ a, b }) => ({ sum: a + b }),
  search: async ({ ms }) => {
    await pause(ms);
    return { found: 3 };
  },
  refuse: () => {
    throw new RpcError('permission_denied', 'a text with the secret of the handler');
  },
  forget: () => new Promise(() => undefined),
  async *rows() {
    for (let row = 0; ; row += 1) yield { row, text: 'x'.repeat(10_000) };
  },
});

const busy = (await connect({ path })).client(Desk);
const mixed = (await connect({ path, lane: 'socket' })).client(Desk);
const reader = (await connect({ path })).client(Desk);
void mixed.forget({ secret: 'of the caller' }).catch(() => undefined);
const unread = reader.rows({});
await unread[Symbol.asyncIterator]().next(); // and no further: its window is used up
console.log(JSON.stringify({ pid: process.pid }));

async function call() {
  for (let a = 0; ; a += 1) {
    await busy.add({ a, b: 1 });
    if (speed === 'slow' || a % 64 === 0) await pause(5);
  }
}
async function callOthers() {
  for (let round = 0; ; round += 1) {
    await Promise.all([mixed.search({ ms: 40 + (round % 7) * 30 }), mixed.search({ ms: 20 })]);
    await mixed.refuse({ secret: 'of the caller' }).catch(() => undefined);
    await pause(60);
  }
}
void call();
void callOthers();
process.stdin.on('end', () => process.exit(0)).resume();
