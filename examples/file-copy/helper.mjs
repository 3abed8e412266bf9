// Writes a byte stream to the file that its metadata names, and answers with the length and the
// SHA-256.
import { createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { parent } from 'sidecall';

const session = await parent();
for await (const stream of session.duplexes({ name: 'copy', allowHalfOpen: true })) {
  copy(stream).catch((error) => stream.destroy(error));
}

async function copy(stream) {
  const hash = createHash('sha256');
  let bytes = 0;
  const count = new Transform({
    transform(chunk, _encoding, then) {
      hash.update(chunk);
      bytes += chunk.byteLength;
      then(null, chunk);
    },
  });
  await pipeline(stream, count, createWriteStream(stream.metadata.to), { end: true });
  stream.end(JSON.stringify({ bytes, sha256: hash.digest('hex') }));
}
