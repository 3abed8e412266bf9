// A helper that serves after 300 ms, as with a slow database. With `services`, parent() gets the
// service at once.
import { setTimeout as sleep } from 'node:timers/promises';
import { implement, json, notification, parent, service, unary } from '../../../dist/index.js';

const Late = service('Late', { hello: unary(), exit: notification() });
const handlers = { hello: () => 'served late', exit: (code) => process.exit(code) };
const early = { hello: () => 'served from the start', exit: handlers.exit };
const isEarly = process.argv[2] === 'services';
const session = await parent(isEarly ? { services: [implement(Late, early)] } : {});
await sleep(300);
if (!isEarly) session.serve(Late, handlers);
void (async () => {
  for await (const channel of session.channels(json(), { name: 'pid' })) {
    await channel.send(process.pid);
    await channel.end();
  }
})();
for await (const stream of session.duplexes({ name: 'pid' })) stream.end(String(process.pid));
