// Asks for quotes over both lanes, in calls and over a channel, and prints how many came in a
// second.
import { connect, socketPath } from 'sidecall';
import { Desk, order, quote } from './contract.mjs';

const [path = socketPath('structs'), settle] = process.argv.slice(2);
if (settle === 'settle') {
  const session = await connect({ path });
  const { price } = await session.client(Desk).settle({ id: 1, amount: 100, name: 'Ada' });
  console.log(`settled at ${price}`);
  process.exit(0);
}
for (const lane of ['ring', 'socket']) {
  const session = await connect({ path, lane });
  console.log(`${lane}: ${await byCalls(session)} calls a second`);
  console.log(`${lane}: ${await byChannel(session)} messages a second`);
  await session.close();
}

async function byCalls(session) {
  const desk = session.client(Desk);
  const began = performance.now();
  let done = 0;
  const worker = async () => {
    while (performance.now() - began < 500) {
      const { id } = await desk.price({ id: done, amount: 100, name: 'Ada' });
      if (id < 0) throw new Error('a quote for no order');
      done += 1;
    }
  };
  await Promise.all(Array.from({ length: 16 }, worker));
  return Math.round((done / (performance.now() - began)) * 1_000).toLocaleString('en');
}

async function byChannel(session) {
  const count = 20_000;
  const orders = session.openChannel(order, { name: 'orders' });
  const began = performance.now();
  const received = (async () => {
    for await (const quotes of session.channels(quote, { name: 'quotes' })) {
      let seen = 0;
      for await (const { id } of quotes) {
        if (id !== seen) throw new Error(`quote ${id} where ${seen} was due`);
        seen += 1;
      }
      return seen;
    }
  })();
  for (let id = 0; id < count; id += 1) await orders.send({ id, amount: 1, name: 'Grace' });
  await orders.end();
  const seen = await received;
  return Math.round((seen / (performance.now() - began)) * 1_000).toLocaleString('en');
}
