// A server over stdio that ignores the end of its input, and every signal that can be ignored.
import { appendFileSync } from 'node:fs';

for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(signal, () => undefined);
process.stdin.resume();
setInterval(() => undefined, 1_000);
appendFileSync(process.env.PIDS, 'ready\n');
