// Sends each line of its input, prints the messages of the other users.
import { createInterface } from 'node:readline';
import { connect, socketPath } from 'sidecall';
import { Chat } from './contract.mjs';

const [name = 'anonymous', path = socketPath('chat')] = process.argv.slice(2);
const session = await connect({ path });
const room = session.client(Chat).join({ metadata: { name } });
const hearing = (async () => {
  for await (const { from, text } of room) console.log(`${from}: ${text}`);
})();
console.log('joined');
for await (const line of createInterface({ input: process.stdin })) await room.send(line);
await room.end();
await hearing;
await session.close();
