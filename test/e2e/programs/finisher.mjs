// A helper that ends as it is told, and opens a channel of its own in each of its processes.
import { json, notification, parent, service, unary } from '../../../dist/index.js';

const Finisher = service('Finisher', { exit: notification(), add: unary() });
const session = await parent();
session.serve(Finisher, {
  exit: (code) => process.exit(code),
  add: ({ a, b }) => ({ sum: a + b }),
});
const channel = session.openChannel(json(), { name: 'hello' });
await channel.send({ pid: process.pid });
