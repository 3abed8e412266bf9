// A program that is spawned as a helper and does something else.
import { writeSync } from 'node:fs';

const what = process.argv[2];
if (what === 'exit') process.exit(3);
if (what === 'noise') writeSync(3, Buffer.alloc(64, 0x41));
if (what === 'stubborn') process.on('SIGTERM', () => undefined);
if (what === 'stubborn' || what === 'goes-on') {
  const { parent } = await import('../../../dist/index.js');
  await parent();
}
setInterval(() => undefined, 1000);
