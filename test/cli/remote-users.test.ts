// sidecall list, call, and doctor PATH: against a listener of another user.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { listen } from '../../src/rendezvous/listen.ts';
import { command as main } from '../support/inspected.ts';
import { alice, openDirectory } from '../support/users.ts';

/** The command, as root. */
function sidecall(...args: string[]): Promise<{ stdout: string; stderr: string }> {
  return new Promise((done) => {
    execFile(process.execPath, [main, ...args], (_error, stdout, stderr) =>
      done({ stdout, stderr }),
    );
  });
}

describe('a listener of another user', () => {
  it('is listed and called where --uid and --mode say so, and not otherwise', async () => {
    using folder = openDirectory();
    chownSync(folder.path, alice, alice);
    const script = `
      import { listen, service, unary } from ${JSON.stringify(join(main, '../../index.js'))};
      const uid = [0, ${alice}];
      const listener = await listen({ path: '${folder.file('s')}', authorize: { uid }, introspection: true });
      listener.serve(service('Demo', { whoami: unary() }), { whoami: (_, { peer }) => peer.uid });
      console.log('listening');`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
      ...{ uid: alice, gid: alice, stdio: ['ignore', 'pipe', 'inherit'], cwd: '/' },
    });
    try {
      await once(child.stdout, 'data');
      const path = folder.file('s');
      const rules = ['--uid', String(alice), '--mode', '600'];
      expect((await sidecall('list', path, ...rules)).stdout).toContain('Demo.whoami');
      expect((await sidecall('call', path, 'Demo.whoami', ...rules)).stdout).toBe('0\n');
      expect((await sidecall('doctor', path, ...rules)).stdout).toContain(`uid ${alice}`);
      expect((await sidecall('list', path)).stderr).toContain('ERR_SIDECALL_PATH_UNSAFE');
      const wrongMode = await sidecall('list', path, '--uid', String(alice), '--mode', '660');
      expect(wrongMode.stderr).toContain('has mode 0600; expect.modes is 0660');
    } finally {
      child.kill('SIGKILL');
      await once(child, 'close');
    }
  });

  it('tells a place that we may not look at from an empty one', async () => {
    using folder = openDirectory();
    chmodSync(folder.path, 0o700);
    await using _ = await listen({ path: folder.file('s') });
    for (const name of ['s', 'absent']) {
      const child = spawn(process.execPath, [main, 'doctor', folder.file(name), '--json'], {
        ...{ uid: alice, gid: alice, stdio: ['ignore', 'pipe', 'inherit'], cwd: '/' },
      });
      expect(JSON.parse(await text(child.stdout))).toMatchObject({
        verdict: 'forbidden',
        reason: `a directory on the way does not let uid ${alice} look (EACCES)`,
      });
    }
  });
});
