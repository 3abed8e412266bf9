// Answers with its version. Started again with another one, it takes the place of the server that
// runs, which finishes its calls and exits. No client is refused meanwhile.
import { listen, socketPath } from 'sidecall';
import { Greeter } from './contract.mjs';

const [version = '1', path = socketPath('hand-over')] = process.argv.slice(2);
const listener = await listen({
  path,
  takeOver: {
    // A real server loads what it needs here: until it is ready the one before goes on.
    ready: (held) => held.serve(Greeter, { greet: (name) => `hello ${name}, from ${version}` }),
  },
});
// Calls under way are answered, and the path is removed; a second signal ends at once.
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => listener.close());
console.log(`version ${version} listens`);
const handedOver = await listener.handOver({ deadlineMs: 30_000 }).catch(() => undefined);
if (handedOver === undefined) console.log(`version ${version} ends`);
else console.log(`version ${version} ends: ${handedOver.moved} sessions moved to the next`);
