// A shared helper that notes each call that it serves. Argument: the file.
import { appendFileSync } from 'node:fs';
import { listenShared, service, unary } from '../../../dist/index.js';

const [file] = process.argv.slice(2);
const Election = service('Election', { where: unary({ idempotent: true }) });
await listenShared({
  ready: (listener) =>
    listener.serve(Election, {
      where: () => {
        // Monotonic, and the same clock in all processes of the machine.
        appendFileSync(file, `${process.pid} ${process.hrtime.bigint()}\n`);
        return process.pid;
      },
    }),
});
