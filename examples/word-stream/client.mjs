// Sends twelve words and prints the last answer.
import { connect, json, socketPath } from 'sidecall';

const [path = socketPath('word-stream')] = process.argv.slice(2);
const session = await connect({ path });
const channel = session.openChannel(json(), { name: 'words' });
const text = 'the quick brown fox jumps over the lazy dog and runs away';
const sending = (async () => {
  for (const word of text.split(' ')) await channel.send({ word });
  await channel.end(); // the server has received all words
})();
let last = [];
for await (const { words } of channel) last = words;
await sending;
console.log(last.join(' '));
await session.close();
