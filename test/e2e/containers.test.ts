// Two processes as in two containers: user, pid and mount namespaces of their own, and a directory
// that both see. Needs root, to begin under two users.
import { chmodSync, chownSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  programPath,
  type RunningProgram,
  requireRoot,
  startProgram,
} from '../support/programs.ts';
import { alice, bob, openDirectory } from '../support/users.ts';

beforeAll(requireRoot);

const namespaces = ['--user', '--map-root-user', '--mount', '--pid', '--fork', '--kill-child'];

/** A program in namespaces of its own, whose root is `uid` outside. */
function contained(uid: number, name: string, ...args: string[]): RunningProgram {
  const program = [process.execPath, programPath(name), ...args];
  return startProgram(name, [...namespaces, ...program], { command: 'unshare', uid, gid: uid });
}

/** A volume: a directory of the container that listens. */
function volume(): ReturnType<typeof openDirectory> {
  const directory = openDirectory();
  const path = join(directory.path, 'volume');
  mkdirSync(path);
  chownSync(path, bob, bob);
  chmodSync(path, 0o755);
  return { ...directory, path, file: (name) => join(path, name) };
}

describe('containers that share a directory', () => {
  it.each(['ring', 'socket'])('connect where both say unmapped: true, by the %s', async (lane) => {
    using shared = volume();
    const path = shared.file('s');
    const options = { path, mode: '0666', authorize: { unmapped: true }, lane };
    await using server = contained(bob, 'listener.mjs', JSON.stringify(options));
    expect(await server.next()).toMatchObject({ path });
    const expected = { expect: { unmapped: true, modes: ['0666'] }, lane };
    await using client = contained(alice, 'caller.mjs', path, JSON.stringify(expected));
    const outcome = await client.next();
    expect(outcome).toMatchObject({
      seen: { origin: 'kernel', uid: 65_534, pid: 0 },
      server: { origin: 'kernel', uid: 65_534, pid: 0 },
      own: { uid: 0 },
    });
  });

  it('are refused by the default policy, and by rules that name the unmapped uid', async () => {
    using shared = volume();
    const path = shared.file('s');
    const expected = { expect: { unmapped: true, modes: ['0666'] } };
    for (const authorize of [undefined, { uid: 65_534 }, { uid: 0 }]) {
      const options = { path, mode: '0666', authorize };
      await using server = contained(bob, 'listener.mjs', JSON.stringify(options));
      await server.next();
      await using client = contained(alice, 'caller.mjs', path, JSON.stringify(expected));
      expect(await client.next()).toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE' });
      expect(await server.next()).toMatchObject({
        event: 'refused',
        code: 'ERR_SIDECALL_PEER_DENIED',
      });
    }
  });

  it('the client refuses a listener of another namespace that it has not named', async () => {
    using shared = volume();
    const path = shared.file('s');
    const options = { path, mode: '0666', authorize: { unmapped: true } };
    await using server = contained(bob, 'listener.mjs', JSON.stringify(options));
    await server.next();
    const expected = { expect: { modes: ['0666'] }, unsafeDirectory: true };
    await using client = contained(alice, 'caller.mjs', path, JSON.stringify(expected));
    expect(await client.next()).toMatchObject({ code: 'ERR_SIDECALL_PATH_UNSAFE' });
  });
});
