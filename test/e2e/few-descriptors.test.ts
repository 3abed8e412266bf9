// Each public function with every number of free descriptors: it works, or says what is missing.

import { rmSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { listen } from '../../src/rendezvous/listen.ts';
import { sharedPath } from '../../src/shared/shared-path.ts';
import { logOf } from '../../src/shared/start-shared.ts';
import { programPath, scratchDirectory, startProgram } from '../support/programs.ts';
import { rounds } from '../support/rounds.ts';

interface Outcome {
  readonly free: number;
  readonly name?: string;
  readonly code?: string;
  readonly message?: string;
}

const functions = [
  ...['spawnHelper', 'spawnPool', 'listen', 'listenAt'],
  ...['connect', 'reconnect', 'connectPool', 'sharedHelper'],
];

/** All of 0 to 30 in the long run; what needs most (a pool) works with 20. */
const counts = Array.from({ length: 31 }, (_, free) => free).filter(
  (free) => free % rounds(1, 2) === 0 || free < 8,
);

describe('with few descriptors', () => {
  it.each(functions)('%s works, or its error names descriptors', async (name) => {
    using scratch = scratchDirectory();
    const path = scratch.file('s');
    await using _listener = await listen({ path });
    const script = 'ulimit -n 60 && exec "$@"';
    const program = [process.execPath, programPath('few-descriptors.mjs'), name, path];
    const helper = name === 'sharedHelper' ? 'shared.mjs' : 'helper.mjs';
    const args = ['-c', script, 'sh', ...program, programPath(helper), JSON.stringify(counts)];
    await using running = startProgram('', args, { command: 'sh' });
    for (const free of counts) {
      const outcome = (await running.next()) as unknown as Outcome;
      expect(outcome.free).toBe(free);
      if (outcome.code === undefined && outcome.name === undefined) continue;
      expect(outcome).toMatchObject({
        name: 'SidecallError',
        code: 'ERR_SIDECALL_LIMIT_DESCRIPTORS',
        message: expect.stringContaining('descriptor'),
      });
    }
    await running.exited;
    rmSync(logOf(sharedPath(`test-${running.pid}`, undefined)), { force: true });
  });
});
