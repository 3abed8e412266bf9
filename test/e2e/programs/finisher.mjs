// A helper that exits on request; each process of it opens a channel to the parent.
import { json, notification, parent, service, unary } from '../../../dist/index.js';

const Finisher = service('Finisher', { exit: notification(), add: unary() });
const session = await parent();
session.serve(Finisher, {
  exit: (code) => process.exit(code),
  add: ({ a, b }) => ({ sum: a + b }),
});
const channel = session.openChannel(json(), { name: 'hello' });
await channel.send({ pid: process.pid });
