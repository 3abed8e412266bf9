// Writes the time ten times a second to every byte stream `time` that a client opens.
import { listen, socketPath } from 'sidecall';

const [path = socketPath('time-ticker')] = process.argv.slice(2);
const listener = await listen({ path });
// Calls under way are answered, and the path is removed; a second signal ends at once.
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => listener.close());
console.log(`listening at ${listener.path}`);

for await (const session of listener) void tick(session);

async function tick(session) {
  for await (const stream of session.duplexes({ name: 'time' })) {
    console.log(`ticking for pid ${session.peer.pid}`);
    const timer = setInterval(() => stream.write(`${new Date().toISOString()}\n`), 100);
    stream.on('error', () => undefined); // the client has closed: no failure here
    stream.on('close', () => clearInterval(timer));
    // A server that stops ends the stream, so that the client ends, too.
    void session.draining.then(() => {
      clearInterval(timer);
      stream.end();
    });
  }
}
