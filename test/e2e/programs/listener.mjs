// Listens at a path, serves the demo, and prints its events.
import { listen, SidecallError } from '../../../dist/index.js';
import { Demo, handlers, say } from './demo.mjs';

const options = JSON.parse(process.argv[2]);
const drop = process.argv[3];
if (drop !== undefined) {
  process.setgroups([]);
  process.setgid(Number(drop));
  process.setuid(Number(drop));
}
try {
  const listener = await listen({
    ...options,
    onEvent: ({ type, error, peer }) => say({ event: type, code: error.code, peer }),
  });
  listener.serve(Demo, handlers);
  say({ path: listener.path, pid: process.pid });
  process.stdin.on('data', async (line) => {
    if (String(line).trim() === 'close') {
      await listener.close();
      say({ closed: true });
      process.exit(0);
    }
  });
  process.stdin.on('end', () => process.exit(0));
} catch (error) {
  const isOurs = SidecallError.is(error);
  say({ failed: isOurs ? error.code : String(error), message: error.message });
  process.exit(3);
}
