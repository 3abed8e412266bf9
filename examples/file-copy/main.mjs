// Copies a file through a helper. The slower of reading and writing sets the pace.
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { spawnHelper } from 'sidecall';

const [from, to] = process.argv.slice(2);
if (to === undefined) {
  console.error('usage: node main.mjs FROM TO');
  process.exit(2);
}
const helper = await spawnHelper(new URL('helper.mjs', import.meta.url));
const stream = helper.session.openDuplex({ name: 'copy', metadata: { to: resolve(to) } });
const hash = createHash('sha256');
const source = createReadStream(from).on('data', (chunk) => hash.update(chunk));
const answer = text(stream);
await pipeline(source, stream);
const { bytes, sha256 } = JSON.parse(await answer);
console.log(`${bytes} bytes, ${sha256 === hash.digest('hex') ? 'the same' : 'DIFFERENT'}`);
await helper.stop();
