// Answers orders with quotes: as calls, and as messages of a channel, where a callback takes one at
// a time.
import { setTimeout as wait } from 'node:timers/promises';
import { listen, socketPath } from 'sidecall';
import { Desk, order, quote } from './contract.mjs';

const [path = socketPath('structs'), settleMs = '500'] = process.argv.slice(2);
const priceOf = ({ id, amount }) => ({ id, price: amount * 1.01 });

const listener = await listen({ path });
listener.serve(Desk, {
  price: priceOf,
  async settle(request) {
    console.log(`settling ${request.id}`);
    await wait(Number(settleMs));
    return priceOf(request);
  },
});
// Calls under way are answered, and the path is removed; the same signal again ends at once.
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => listener.close());
console.log(`listening at ${listener.path}`);
for await (const session of listener) void answerChannels(session);

async function answerChannels(session) {
  for await (const orders of session.channels(order, { name: 'orders' })) {
    const quotes = session.openChannel(quote, { name: 'quotes' });
    orders.subscribe({
      // The sender waits while this promise is pending.
      message: (each) => quotes.send(priceOf(each)),
      end: () => quotes.end(),
      error: () => quotes.cancel(),
    });
  }
}
