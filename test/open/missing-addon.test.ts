// A session without the addon tells so, unless the program asked for none.
import { spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { programPath } from '../support/programs.ts';

const index = JSON.stringify(new URL('../../dist/index.js', import.meta.url).href);
const helper = JSON.stringify(programPath('helper.mjs'));

/** The output of a program that starts two helpers, each with these options. */
function startTwo(native: string, options = ''): { stdout: string; stderr: string } {
  const code = `
    const { spawnHelper } = await import(${index});
    for (let at = 0; at < 2; at += 1) {
      const env = { ...process.env, SIDECALL_NATIVE: 'off' };
      const helper = await spawnHelper(process.execPath, [${helper}], { env, ${options} });
      console.log(helper.session.lane);
      await helper.stop();
    }`;
  const env = { ...process.env, SIDECALL_NATIVE: native };
  // A busy machine needs more than three seconds to start a helper, and the process says so.
  const flags = ['--disable-warning=SIDECALL_HELPER_SILENT', '--input-type=module', '-e', code];
  return spawnSync(process.execPath, flags, { encoding: 'utf8', env });
}

const absent = '/no/such/sidecall.node';

describe('a session without the addon', () => {
  it('is one warning of the process, with the reason', () => {
    const { stdout, stderr } = startTwo(absent);
    expect(stdout).toBe('socket\nsocket\n');
    expect(stderr.match(/SIDECALL_NO_ADDON/g)).toHaveLength(1);
    expect(stderr).toContain(`${absent}: there is no such file`);
  });

  it('is an event of each session, and no warning', () => {
    const told = 'onEvent: ({ type, error }) => console.log(type, error.code)';
    const { stdout, stderr } = startTwo(absent, told);
    const line = 'lane ERR_SIDECALL_ADDON_UNAVAILABLE\nsocket\n';
    expect(stdout).toBe(line + line);
    expect(stderr).toBe('');
  });

  it('says nothing where the addon or the ring is not wanted', () => {
    expect(startTwo('off').stderr).toBe('');
    expect(startTwo(absent, "lane: 'socket'").stderr).toBe('');
  });
});
