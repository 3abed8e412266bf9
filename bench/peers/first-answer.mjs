// Prints the milliseconds from the start of a helper to its first answer: by `spawnHelper()`, or by
// `fork()` where the argument says so.
import { fork } from 'node:child_process';

const begun = performance.now();
const print = () => console.log(performance.now() - begun);
const [how] = process.argv.slice(2);
if (how === 'fork') {
  const child = fork(import.meta.filename, ['child']);
  child.once('message', () => {
    print();
    child.kill();
  });
  child.send(1);
} else if (how === 'child') {
  process.on('message', (message) => process.send(message));
} else {
  const { parent, service, spawnHelper, unary } = await import('../../dist/index.js');
  const Echo = service('Echo', { echo: unary() });
  if (process.env.SIDECALL_FD !== undefined) {
    (await parent()).serve(Echo, { echo: (value) => value });
  } else {
    const helper = await spawnHelper(new URL(import.meta.url));
    await helper.client(Echo).echo(1);
    print();
    await helper.stop();
  }
}
