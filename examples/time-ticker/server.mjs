// Writes the time to everyone who opens the byte stream `time`, ten times a second.
import { listen } from 'sidecall';

const [path] = process.argv.slice(2);
const listener = await listen({ path });
console.log(`listening at ${listener.path}`);

process.once('SIGINT', () => listener.close());
for await (const session of listener) void tick(session);

async function tick(session) {
  for await (const stream of session.duplexes({ name: 'time' })) {
    console.log(`ticking for pid ${session.peer.pid}`);
    const timer = setInterval(() => stream.write(`${new Date().toISOString()}\n`), 100);
    stream.on('error', () => undefined); // whoever listened has gone: that is no failure here
    stream.on('close', () => clearInterval(timer));
  }
}
