// Names of shared memory: there are none.
import { readdirSync, watch } from 'node:fs';
import { tmpdir } from 'node:os';
import { describe, expect, it } from 'vitest';
import { spawnHelper } from '../../src/helper/spawn-helper.ts';
import { connect } from '../../src/rendezvous/connect.ts';
import { listen } from '../../src/rendezvous/listen.ts';
import { Demo, demoHandlers, until } from '../support/contract.ts';
import { programPath } from '../support/programs.ts';

describe('shared memory', () => {
  it('has no name at any time, neither in /dev/shm nor in the temporary directory', async () => {
    const seen = new Set<string>();
    const folders = ['/dev/shm', tmpdir()];
    const before = folders.flatMap((folder) => readdirSync(folder));
    const watchers = folders.map((folder) =>
      watch(folder, (_, name) => void (name !== null && seen.add(name))),
    );
    for (let round = 0; round < 20; round += 1) {
      await using listener = await listen({ blockAreaBytes: 1024 * 1024 });
      listener.serve(Demo, demoHandlers());
      await using session = await connect({ path: listener.path, blockAreaBytes: 1024 * 1024 });
      expect(session.lane).toBe('ring');
      expect(await session.client(Demo).add({ a: 1, b: round })).toEqual({ sum: round + 1 });
    }
    const helper = await spawnHelper(process.execPath, [programPath('helper.mjs')]);
    expect(await helper.client(Demo).add({ a: 1, b: 1 })).toEqual({ sum: 2 });
    await helper.stop();
    await until(() => seen.size > 0); // the folders of the listeners
    for (const watcher of watchers) watcher.close();
    // Other tests run beside this one, and have files of shmipc-go.
    const isKnown = /^(sidecall-listener-\w{6}|sidecall_test_.*)$/;
    const strange = [...seen].filter((name) => !before.includes(name) && !isKnown.test(name));
    expect(strange).toEqual([]);
  });
});
