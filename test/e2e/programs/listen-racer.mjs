// Listens at a path at each input that names one, prints the outcome, and closes at `close`. The
// argument: further options, as JSON.
import { listen } from '../../../dist/index.js';
import { Demo, handlers, say } from './demo.mjs';

const options = JSON.parse(process.argv[2] ?? '{}');
let listener;
async function obey(word) {
  if (word === 'close') {
    await listener?.close();
    listener = undefined;
    return say({ closed: true });
  }
  try {
    listener = await listen({ ...options, path: word });
    listener.serve(Demo, handlers);
    say({ listens: true });
  } catch (error) {
    say({ code: error.code });
  }
}

let done = Promise.resolve();
process.stdin.setEncoding('utf8').on('data', (text) => {
  for (const word of text.trim().split('\n')) done = done.then(() => obey(word));
});
process.stdin.on('end', () => process.exit(0));
say({ ready: true });
