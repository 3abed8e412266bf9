// Serves streams, and reads them on request. Lines on its input: `read`, `report`, `exit`.
import { readFileSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { bytes, clientStream, listen, service } from '../../../dist/index.js';
import { say } from './demo.mjs';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc');
const Sink = service('Sink', { put: clientStream({ request: bytes, response: bytes }) });
const held = [];
const listener = await listen({ lane: process.argv[2] });
listener.serve(Sink, {
  put: async (messages) => {
    await new Promise((done) => held.push(done));
    for await (const _ of messages);
    return new Uint8Array(0);
  },
});
say({ path: listener.path });
process.stdin.on('data', (lines) => {
  for (const line of String(lines).trim().split('\n')) {
    if (line === 'read') for (const done of held.splice(0)) done();
    if (line === 'exit') process.exit(0);
    if (line !== 'report') continue;
    collect();
    const { heapUsed, external } = process.memoryUsage();
    const [, kilobytes] = /RssAnon:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'));
    say({
      usedMiB: (heapUsed + external) / 2 ** 20,
      residentMiB: kilobytes / 1024,
      sessions: listener.sessionCount,
      streams: held.length,
    });
  }
});
process.stdin.on('end', () => process.exit(0));
