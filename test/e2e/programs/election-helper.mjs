// A shared helper that notes each call that it serves. Argument: the file.
import { randomBytes } from 'node:crypto';
import { appendFileSync } from 'node:fs';
import { listenShared, service, unary } from '../../../dist/index.js';

const [file] = process.argv.slice(2);
// The system uses pids again, and a test of an hour sees many processes.
const name = `${process.pid}-${randomBytes(4).toString('hex')}`;
const Election = service('Election', { where: unary({ idempotent: true }) });
await listenShared({
  ready: (listener) =>
    listener.serve(Election, {
      where: () => {
        // Monotonic, and the same clock in all processes of the machine.
        appendFileSync(file, `${name} ${process.hrtime.bigint()}\n`);
        return process.pid;
      },
    }),
});
