// A client that sends right behind its hello, and continues while its bytes are read.
import { describe, expect, it } from 'vitest';
import type { NativeAddon } from '../../src/addon/addon-api.ts';
import { requireNative } from '../../src/addon/load-addon.ts';
import { readQueued } from '../../src/uds/net-socket.ts';
import { scratchDirectory, startProgram } from '../support/programs.ts';

const native = requireNative('the test');
const pieceBytes = 64 * 1024;

describe('F1 what a client sends right behind its hello', () => {
  it('is read as far as it has come, whatever is added meanwhile', () => {
    const { near, far } = native.socketPair();
    try {
      let sent = 0;
      const send = (): void => {
        const taken = native.send(far, Buffer.alloc(pieceBytes, 1), 0, -1);
        if (taken > 0) sent += taken;
      };
      send();
      const queued = sent;
      let reads = 0;
      const adding: NativeAddon = {
        ...native,
        receive: (...args) => {
          const got = native.receive(...args);
          reads += 1;
          if (reads < 1000) send();
          return got;
        },
      };
      const chunks = readQueued(adding, near, 0);
      expect(chunks.reduce((sum, chunk) => sum + chunk.length, 0)).toBe(queued);
      // The messages that were added are still there, for the stream that reads from now on.
      let left = 0;
      for (const into = Buffer.alloc(pieceBytes); ; ) {
        const got = native.receive(near, into, 0, false, false, 0);
        if (got === undefined) break;
        left += got.bytes;
      }
      expect(queued + left).toBe(sent);
    } finally {
      native.closeDescriptor(near);
      native.closeDescriptor(far);
    }
  });

  it('is answered by a listener that has memory to offer, a hundred times', async () => {
    using scratch = scratchDirectory();
    const path = scratch.file('s');
    await using program = startProgram('listener.mjs', [JSON.stringify({ path })]);
    await program.next();
    await using sender = startProgram('early-sender.mjs', [path, '100']);
    expect(await sender.next()).toEqual({ answered: 100, failed: [] });
  });
});
