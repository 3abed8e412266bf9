// Prints five ticks of the server.
import { connect, socketPath } from 'sidecall';

process.stdout.on('error', () => process.exit()); // its reader has ended, as in `| head -2`
const [path = socketPath('time-ticker')] = process.argv.slice(2);
const session = await connect({ path });
const stream = session.openDuplex({ name: 'time' });
let ticks = 0;
for await (const chunk of stream) {
  process.stdout.write(chunk);
  ticks += 1;
  if (ticks === 5) break; // destroys the stream, so the server stops writing
}
await session.close();
