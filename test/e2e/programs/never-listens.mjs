// A program that does not come to listenShared(). The argument: a file that says that it runs.
import { writeFileSync } from 'node:fs';

console.error('waits for a lock that is not given');
writeFileSync(process.argv[2], '');
setInterval(() => undefined, 1_000);
