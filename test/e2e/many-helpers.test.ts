// A thousand helpers, started and stopped in three ways: nothing of them is left.
import { readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { describe, expect, it } from 'vitest';
import { type Helper, spawnHelper } from '../../src/helper/spawn-helper.ts';
import { until } from '../support/contract.ts';
import { countDescriptors, countMaps } from '../support/leaks.ts';
import { peerProgram } from '../support/programs.ts';
import { rounds } from '../support/rounds.ts';

const helpers = rounds(1_000, 150);
const atOnce = 8;

/** Processes that this one has started and that still exist, ended ones included. */
function children(): string[] {
  return readdirSync('/proc').filter((name) => {
    if (!/^\d+$/.test(name)) return false;
    try {
      const [, fields = ''] = readFileSync(`/proc/${name}/stat`, 'latin1').split(') ');
      return Number(fields.split(' ')[1]) === process.pid;
    } catch {
      return false; // it has ended meanwhile
    }
  });
}

const ends: readonly ((helper: Helper) => Promise<unknown>)[] = [
  (helper) => helper.stop(),
  async (helper) => {
    process.kill(helper.pid, 'SIGKILL');
    await helper.exited;
  },
  async (helper) => {
    await helper.session.close();
    await helper.exited;
  },
];

describe('a thousand helpers', () => {
  it('leave no process, descriptor, mapping or file, whether stopped, killed or closed', async () => {
    const files = (): string[] => readdirSync(tmpdir()).filter((name) => /sidecall/.test(name));
    const before = {
      children: children(),
      descriptors: countDescriptors(),
      maps: countMaps(),
      files: files(),
    };
    let begun = 0;
    let answered = 0;
    const worker = async (): Promise<void> => {
      while (begun < helpers) {
        const end = ends[begun % ends.length];
        begun += 1;
        const helper = await spawnHelper(peerProgram, ['helper']);
        await helper.session.call('Any.method', {});
        answered += 1;
        await end?.(helper);
      }
    };
    await Promise.all(Array.from({ length: atOnce }, worker));
    expect(answered).toBe(helpers);
    await until(() => children().length <= before.children.length);
    await until(() => countDescriptors() <= before.descriptors);
    await until(() => countMaps() <= before.maps);
    expect(files()).toEqual(before.files);
  });
});
