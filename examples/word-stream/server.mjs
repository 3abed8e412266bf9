// Answers each word with the last ten words of the same channel.
import { json, listen, socketPath } from 'sidecall';

const [path = socketPath('word-stream')] = process.argv.slice(2);
const listener = await listen({ path });
// Calls under way are answered, and the path is removed; a second signal ends at once.
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => listener.close());
console.log(`listening at ${listener.path}`);

for await (const session of listener) void serve(session);

async function serve(session) {
  for await (const channel of session.channels(json(), { name: 'words' })) {
    remember(channel).catch(() => undefined); // the client has gone: no failure here
    // A server that stops ends its half, so that the client ends, too.
    void session.draining.then(() => channel.end().catch(() => undefined));
  }
}

async function remember(channel) {
  const words = [];
  for await (const { word } of channel) {
    words.push(word);
    if (words.length > 10) words.shift();
    await channel.send({ words }); // waits while the client reads slowly
  }
  await channel.end();
}
