// The socket of an inspection, as another user sees it.
import { spawnSync } from 'node:child_process';
import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { spawnHelper } from '../../src/helper/spawn-helper.ts';
import { programPath, scratchDirectory } from '../support/programs.ts';
import { alice } from '../support/users.ts';

it('refuses another user who can reach it', async () => {
  using runtime = scratchDirectory();
  const env = { ...process.env, SIDECALL_INSPECT: '1', XDG_RUNTIME_DIR: runtime.path };
  await using helper = await spawnHelper(process.execPath, [programPath('helper.mjs')], { env });
  const path = join(runtime.path, 'sidecall', `inspect-${helper.pid}.sock`);
  for (const each of [runtime.path, join(runtime.path, 'sidecall')]) chmodSync(each, 0o755);
  chmodSync(path, 0o666);
  const options = JSON.stringify({ expect: { uid: 0, modes: ['0666'] } });
  const args = [programPath('caller.mjs'), path, options, String(alice)];
  const asAlice = spawnSync(process.execPath, args, { encoding: 'utf8' });
  expect(asAlice.stdout).toContain('ERR_SIDECALL_PEER_GONE');
});
