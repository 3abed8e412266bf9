// Calls ten times a second, and prints each new answer. It does not notice that the server changes.
import { setTimeout as pause } from 'node:timers/promises';
import { connect, socketPath } from 'sidecall';
import { Greeter } from './contract.mjs';

const [name = 'you', path = socketPath('hand-over')] = process.argv.slice(2);
const connection = await connect({ path, reconnect: true });
process.once('SIGINT', () => connection.close());
const { greet } = connection.client(Greeter);
let calls = 0;
for (let before = ''; connection.state.state !== 'closed'; ) {
  const answer = await greet(name).catch(() => before);
  calls += 1;
  if (answer !== before) console.log(answer);
  before = answer;
  await pause(100);
}
console.log(`${calls} calls`);
