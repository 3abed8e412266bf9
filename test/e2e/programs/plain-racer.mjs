// Listens with identity `path-permissions` on the first input, and prints the outcome.
import { listen } from '../../../dist/index.js';
import { say } from './demo.mjs';

const [path, times, mask] = process.argv.slice(2);
if (mask !== undefined) process.umask(Number(`0o${mask}`));
const options = { path, identity: 'path-permissions' };
say({ ready: true });
process.stdin.once('data', async () => {
  for (let time = 0; time < Number(times); time += 1) {
    try {
      const listener = await listen(options);
      if (time < Number(times) - 1) await listener.close();
      else say({ listens: true });
    } catch (error) {
      say({ code: error.code });
    }
  }
});
process.stdin.on('end', () => process.exit(0));
