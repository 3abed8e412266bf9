// Computes the SHA-256 of files.
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { parent, RpcError } from 'sidecall';
import { Hasher } from './contract.mjs';

const session = await parent();
session.serve(Hasher, {
  hash: async ({ path }, { signal }) => {
    const hash = createHash('sha256');
    try {
      await pipeline(createReadStream(path), hash, { signal });
    } catch (error) {
      throw new RpcError('not_found', error.message);
    }
    return hash.digest('hex');
  },
});
