// Several real users: programs run under their uids; without root the tests fail.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, existsSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { listen } from '../../src/rendezvous/listen.ts';
import { until } from '../support/contract.ts';
import { peerProgram, requireRoot, startProgram } from '../support/programs.ts';
import { rounds } from '../support/rounds.ts';
import { alice, bob, call, listening, openDirectory, owner } from '../support/users.ts';

const team = 61_100;

beforeAll(requireRoot);

describe('another user', () => {
  it('is refused by the default policy where the file lets it in, before a byte is read', async () => {
    using directory = openDirectory();
    await using server = await listening({ path: directory.file('s'), mode: '0666' });
    const expected = { expect: { uid: owner, modes: ['0666'] } };
    const outcome = await call(server.path, expected, alice);
    expect(outcome).toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE' });
    await until(() => server.events.length === 1);
    expect(server.events[0]).toMatchObject({
      type: 'refused',
      error: { code: 'ERR_SIDECALL_PEER_DENIED', delivered: 'no' },
      peer: { uid: alice, gid: alice, origin: 'kernel', capturedAt: 'connect' },
    });
    expect(server.served()).toBe(0);
    const own = await call(server.path, expected, owner);
    expect(own).toMatchObject({ seen: { uid: owner } });
  });

  it('cannot even connect where the file is ours alone', async () => {
    using directory = openDirectory();
    await using server = await listening({ path: directory.file('s') });
    const outcome = await call(server.path, { expect: { uid: owner } }, alice);
    expect(outcome).toMatchObject({ code: 'ERR_SIDECALL_SYSTEM' });
    expect(server.events).toEqual([]);
  });

  it('that speaks first has 0 bytes of it read', async () => {
    using directory = openDirectory();
    await using server = await listening({ path: directory.file('s'), mode: '0666' });
    const script = `
      process.setgid(${alice}); process.setuid(${alice});
      const socket = require('node:net').createConnection(${JSON.stringify(server.path)});
      socket.on('error', () => {}).on('data', () => process.exit(9)).on('close', () => process.exit(0));
      socket.write(Buffer.alloc(1000, 0x41));
    `;
    const child = spawn(process.execPath, ['-e', script], { stdio: 'ignore' });
    const [code] = await once(child, 'exit');
    expect(code).toBe(0);
    await until(() => server.events.length === 1);
    // Not PROTOCOL: what it wrote was never looked at.
    expect(server.events[0]?.error.code).toBe('ERR_SIDECALL_PEER_DENIED');
  });

  it('is named correctly: uid, effective gid, supplementary groups', async () => {
    using directory = openDirectory();
    await using server = await listening({
      path: directory.file('s'),
      mode: '0666',
      authorize: { uid: [alice, bob] },
    });
    const expected = { expect: { uid: owner, modes: ['0666'] } };
    const plain = await call(server.path, expected, alice);
    expect(plain).toMatchObject({
      own: { uid: alice, gid: alice, groups: [] },
      seen: { uid: alice, gid: alice, groups: [], pidIsHint: false },
      server: { uid: owner, pid: process.pid, capturedAt: 'listen' },
      lane: 'ring',
    });
    const grouped = await call(server.path, expected, bob, team, `${team},61200`);
    expect(grouped).toMatchObject({
      own: { uid: bob, gid: team },
      seen: { uid: bob, gid: team, groups: [team, 61_200] },
    });
  });

  it('that runs a program with other effective ids is what those ids say', async () => {
    using directory = openDirectory();
    await using server = await listening({
      path: directory.file('s'),
      mode: '0666',
      authorize: { uid: bob, gid: team },
    });
    const args = ['as-effective', server.path, alice, bob, team].map(String);
    const child = spawn(peerProgram, args, { stdio: 'ignore' });
    await once(child, 'exit'); // once it is turned away
    await until(() => server.events.length === 1);
    // The policy let it in; what it then said was no hello.
    expect(server.events[0]).toMatchObject({
      peer: { uid: bob, gid: team },
      error: { code: expect.not.stringContaining('DENIED') },
    });
  });

  it('own credentials are those that the peer sees, for a uid no database knows', async () => {
    using directory = openDirectory();
    await using server = await listening({
      path: directory.file('s'),
      mode: '0666',
      authorize: () => true,
    });
    const outcome = await call(
      server.path,
      { expect: { uid: owner, modes: ['0666'] } },
      61_777,
      61_778,
    );
    const { own, seen } = outcome as {
      own: { pid: number; uid: number; gid: number };
      seen: object;
    };
    expect(seen).toMatchObject({ pid: own.pid, uid: own.uid, gid: own.gid });
    // A user of the database, with a group that is not its own there, and others.
    const expected = { expect: { uid: owner, modes: ['0666'] } };
    const ids = { gid: team, groups: [team, 61_200] };
    const root = await call(server.path, expected, owner, team, `${team},61200`);
    expect(root).toMatchObject({ own: { uid: 0, ...ids }, seen: { uid: 0, ...ids } });
  });

  it.each([
    ['its uid', { uid: alice }, [alice], [bob]],
    ['its gid', { gid: team }, [bob, team], [bob]],
    ['a supplementary group', { groups: team }, [bob, bob, team], [bob, bob, 61_300]],
  ])('is let in by %s, and only by that', async (_name, authorize, inside, outside) => {
    using directory = openDirectory();
    await using server = await listening({ path: directory.file('s'), mode: '0666', authorize });
    const expected = { expect: { uid: owner, modes: ['0666'] } };
    expect(await call(server.path, expected, ...inside)).toHaveProperty('seen');
    expect(await call(server.path, expected, ...outside)).toMatchObject({
      code: 'ERR_SIDECALL_PEER_GONE',
    });
  });

  it('a member of the group connects to a socket of mode 0660 or 0770, others do not', async () => {
    for (const mode of ['0660', '0770']) {
      using directory = openDirectory();
      await using server = await listening({
        path: directory.file('s'),
        mode,
        gid: team,
        authorize: { groups: team },
      });
      expect(statSync(server.path)).toMatchObject({ gid: team, uid: owner });
      const expected = { expect: { uid: owner, modes: [mode] } };
      expect(await call(server.path, expected, alice, alice, team)).toHaveProperty('seen');
      expect(await call(server.path, expected, alice)).toMatchObject({
        code: 'ERR_SIDECALL_SYSTEM',
      });
    }
  });

  it('is given the socket of a daemon of root by owner, and no further user is', async () => {
    using directory = openDirectory();
    const path = directory.file('s');
    await using server = await listening({ path, owner: alice, authorize: { uid: alice } });
    expect(statSync(path)).toMatchObject({ uid: alice });
    expect(statSync(path).mode & 0o7777).toBe(0o600);
    const expected = { expect: { uid: owner, owner: alice } };
    expect(await call(path, expected, alice)).toMatchObject({ seen: { uid: alice } });
    expect(await call(path, expected, bob)).toMatchObject({ code: 'ERR_SIDECALL_SYSTEM' });
    const unnamed = await call(path, { expect: { uid: owner } }, alice);
    expect(unnamed).toMatchObject({ code: 'ERR_SIDECALL_PATH_UNSAFE' });
    expect(unnamed.message).toContain(`has owner uid ${alice}; expect.uid is 0`);
    expect(server.served()).toBe(1);
  });

  it('finds a socket that was given to it where the addon is not used, too', async () => {
    using directory = openDirectory();
    const path = directory.file('s');
    const identity = 'path-permissions';
    await using _server = await listening({ path, owner: alice, identity });
    expect(statSync(path)).toMatchObject({ uid: alice });
    const outcome = await call(path, { identity, unsafeDirectory: true }, alice);
    expect(outcome).toMatchObject({ seen: { origin: 'path' } });
  });

  it('has a socket that is replaced, when its daemon was killed, and handed over', async () => {
    using directory = openDirectory();
    const path = directory.file('s');
    const options = { path, owner: alice };
    await using killed = startProgram('listener.mjs', [JSON.stringify(options)]);
    await killed.next();
    killed.child.kill('SIGKILL');
    await killed.exited;
    expect(statSync(path)).toMatchObject({ uid: alice });
    const first = await listen(options);
    const handed = first.handOver();
    const second = await listen({ ...options, takeOver: true });
    expect(await handed).toMatchObject({ epoch: 1 });
    expect(statSync(path)).toMatchObject({ uid: alice });
    await second.close();
    expect(existsSync(path)).toBe(false);
  });

  it('cannot be given a socket by a user that is not root', async () => {
    using directory = openDirectory();
    const inner = directory.file('d');
    mkdirSync(inner);
    chownSync(inner, alice, alice);
    const listenAs = [JSON.stringify({ path: join(inner, 's'), owner: bob }), String(alice)];
    await using program = startProgram('listener.mjs', listenAs);
    const { failed, message } = await program.next();
    expect(failed).toBe('ERR_SIDECALL_SYSTEM');
    expect(message).toContain(`could not be given to uid ${bob}: that needs root`);
    expect(readdirSync(inner)).toEqual([]);
  });

  it('nobody connects before mode, owner and group are final', async () => {
    using directory = openDirectory();
    const path = directory.file('s');
    const script = `
      process.setgid(${alice}); process.setuid(${alice});
      const net = require('node:net');
      let connected = 0;
      const attempt = () => {
        const socket = net.createConnection(${JSON.stringify(path)});
        socket.on('connect', () => { connected += 1; socket.destroy(); });
        socket.on('error', () => {}).on('close', () => setImmediate(attempt));
      };
      attempt();
      process.stdin.on('end', () => { process.stdout.write(String(connected)); process.exit(0); }).resume();
    `;
    const child = spawn(process.execPath, ['-e', script], { stdio: ['pipe', 'pipe', 'inherit'] });
    let said = '';
    child.stdout.on('data', (chunk) => {
      said += chunk;
    });
    for (let round = 0; round < rounds(1_000, 100); round += 1) {
      const to = round % 2 === 0 ? { gid: team } : { owner: bob };
      const listener = await listen({ path, mode: '0660', ...to });
      await listener.close();
    }
    child.stdin.end();
    await once(child, 'close');
    expect(said).toBe('0');
  });
});
