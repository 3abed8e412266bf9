// Connects to a path, serves an echo, and reads a stream of the listener: reader.mjs PATH LANE.
import { bytes, connect, serverStream, service, unary } from '../../../dist/index.js';
import { say } from './demo.mjs';

const Feed = service('Feed', { feed: serverStream({ response: bytes }) });
const Echo = service('Echo', { echo: unary() });
const [path, lane] = process.argv.slice(2);
const session = await connect({ path, lane });
session.serve(Echo, { echo: (value) => value });
say({ pid: process.pid });
let messages = 0;
try {
  for await (const _ of session.client(Feed).feed()) {
    messages += 1;
    if (messages % 500 === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  }
  say({ messages });
} catch ({ code }) {
  say({ code });
}
await session.closed;
