// Several real users: this file drops to them, and fails where it cannot.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import type { SidecallEvent } from '../../src/base/events.ts';
import { spawnHelper } from '../../src/helper/spawn-helper.ts';
import { connect } from '../../src/rendezvous/connect.ts';
import { type ListenOptions, listen } from '../../src/rendezvous/listen.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';
import { until } from '../support/contract.ts';
import { peerProgram, programPath, requireRoot, startProgram } from '../support/programs.ts';

// Ordinary ids that no user database need know.
const alice = 61_001;
const bob = 61_002;
const team = 61_100;
const owner = 0;

const Whoami = service('Desk', { whoami: unary<void, { peer: unknown }>() });

beforeAll(requireRoot);

/** A directory that everybody may enter and only its owner may change. */
function openDirectory(): Disposable & { file: (name: string) => string; path: string } {
  const path = mkdtempSync(join(tmpdir(), 'scratch-'));
  chmodSync(path, 0o755);
  return {
    path,
    file: (name) => join(path, name),
    [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }),
  };
}

async function listening(
  options: ListenOptions,
): Promise<AsyncDisposable & { path: string; events: SidecallEvent[]; served: () => number }> {
  const events: SidecallEvent[] = [];
  let served = 0;
  const listener = await listen({ ...options, onEvent: (event) => events.push(event) });
  listener.serve(Whoami, {
    whoami: (_request, { peer }) => {
      served += 1;
      return { peer };
    },
  });
  return {
    path: listener.path,
    events,
    served: () => served,
    [Symbol.asyncDispose]: () => listener.close(),
  };
}

async function call(
  path: string,
  options: object,
  ...ids: (number | string)[]
): Promise<Record<string, unknown>> {
  await using program = startProgram('caller.mjs', [
    path,
    JSON.stringify(options),
    ...ids.map(String),
  ]);
  return await program.next();
}

describe('another user', () => {
  it('row 1 U5 is refused by the default policy where the file lets it in, before a byte is read', async () => {
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

  it('row 1 cannot even connect where the file is ours alone', async () => {
    using directory = openDirectory();
    await using server = await listening({ path: directory.file('s') });
    const outcome = await call(server.path, { expect: { uid: owner } }, alice);
    expect(outcome).toMatchObject({ code: 'ERR_SIDECALL_SYSTEM' });
    expect(server.events).toEqual([]);
  });

  it('row 1 that speaks first has 0 bytes of it read', async () => {
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

  it('U4 row 6 is named correctly: uid, effective gid, supplementary groups', async () => {
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
    });
    const grouped = await call(server.path, expected, bob, team, `${team},61200`);
    expect(grouped).toMatchObject({
      own: { uid: bob, gid: team },
      seen: { uid: bob, gid: team, groups: [team, 61_200] },
    });
  });

  it('row 6 that runs a program with other effective ids is what those ids say', async () => {
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

  it('U3 own credentials are those that the peer sees, for a uid no database knows', async () => {
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
  });

  it.each([
    ['its uid', { uid: alice }, [alice], [bob]],
    ['its gid', { gid: team }, [bob, team], [bob]],
    ['a supplementary group', { groups: team }, [bob, bob, team], [bob, bob, 61_300]],
  ])('row 2 is let in by %s, and only by that', async (_name, authorize, inside, outside) => {
    using directory = openDirectory();
    await using server = await listening({ path: directory.file('s'), mode: '0666', authorize });
    const expected = { expect: { uid: owner, modes: ['0666'] } };
    expect(await call(server.path, expected, ...inside)).toHaveProperty('seen');
    expect(await call(server.path, expected, ...outside)).toMatchObject({
      code: 'ERR_SIDECALL_PEER_GONE',
    });
  });

  it('U9 a member of the group connects to a socket of mode 0660, others do not', async () => {
    using directory = openDirectory();
    await using server = await listening({
      path: directory.file('s'),
      mode: '0660',
      gid: team,
      authorize: { groups: team },
    });
    expect(statSync(server.path)).toMatchObject({ gid: team, uid: owner });
    const expected = { expect: { uid: owner, modes: ['0660'] } };
    expect(await call(server.path, expected, alice, alice, team)).toHaveProperty('seen');
    expect(await call(server.path, expected, alice)).toMatchObject({ code: 'ERR_SIDECALL_SYSTEM' });
  });

  it('U9 nobody connects before mode and group are final', async () => {
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
    for (let round = 0; round < 300; round += 1) {
      const listener = await listen({ path, mode: '0660', gid: team });
      await listener.close();
    }
    child.stdin.end();
    await once(child, 'close');
    expect(said).toBe('0');
  });

  it('row 10 U7 that squats the path is refused by the client, whatever it listens with', async () => {
    using directory = openDirectory();
    chmodSync(directory.path, 0o777);
    const path = directory.file('s');
    await using squatter = startProgram('listener.mjs', [
      JSON.stringify({ path, mode: '0666', authorize: { uid: owner }, unsafeDirectory: true }),
      String(alice),
    ]);
    expect(await squatter.next()).toHaveProperty('path');
    const anyMode = { modes: ['0666', '0600'] };
    const attempts = [
      [connect({ path }), 'ERR_SIDECALL_PATH_UNSAFE'],
      [connect({ path, unsafeDirectory: true }), 'ERR_SIDECALL_PATH_UNSAFE'],
      [connect({ path, unsafeDirectory: true, expect: anyMode }), 'ERR_SIDECALL_PATH_UNSAFE'],
    ] as const;
    for (const [attempt, code] of attempts) await expect(attempt).rejects.toMatchObject({ code });
    // Even a file that looks like ours: the kernel names who listens.
    chownSync(path, owner, owner);
    chmodSync(path, 0o600);
    await expect(connect({ path, unsafeDirectory: true })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_PEER_DENIED',
      message: expect.stringContaining(String(alice)),
    });
    await using session = await connect({
      path,
      unsafeDirectory: true,
      expect: (peer) => peer.uid === alice,
    });
    expect(session.peer).toMatchObject({ uid: alice, pid: squatter.pid });
  });

  it('row 12 U9 that owns the directory is not trusted with our socket', async () => {
    using directory = openDirectory();
    chownSync(directory.path, alice, alice);
    await expect(listen({ path: directory.file('s') })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_PATH_UNSAFE',
      message: expect.stringContaining(String(alice)),
    });
    await expect(connect({ path: directory.file('s') })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_PATH_UNSAFE',
    });
    await expect(
      connect({ path: directory.file('s'), expect: { uid: alice } }),
    ).rejects.toMatchObject({ code: 'ERR_SIDECALL_NO_LISTENER' });
  });

  it('U11 its socket or lock at our path is left alone', async () => {
    using directory = openDirectory();
    chmodSync(directory.path, 0o777);
    const path = directory.file('s');
    await using theirs = startProgram('listener.mjs', [
      JSON.stringify({ path, unlinkOnClose: false, unsafeDirectory: true }),
      String(alice),
    ]);
    await theirs.next();
    theirs.child.kill('SIGKILL');
    await theirs.exited;
    await expect(listen({ path, unsafeDirectory: true })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_PATH_UNSAFE',
    });
    expect(statSync(path).uid).toBe(alice);
  });

  it('row 7 that our user namespace does not know is denied, even where the policy names 65534', async () => {
    using directory = openDirectory();
    const path = directory.file('s');
    const options = { path, mode: '0666', authorize: { uid: [65_534, owner] } };
    // The listener lives in a namespace that maps root alone, so every other user is unmapped to
    // it.
    await using listener = startProgram(
      'listener.mjs',
      ['-Ur', process.execPath, programPath('listener.mjs'), JSON.stringify(options)],
      { command: 'unshare' },
    );
    expect(await listener.next()).toHaveProperty('path');
    const expected = { expect: { uid: owner, modes: ['0666'] } };
    expect(await call(path, expected, alice)).toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE' });
    expect(await listener.next()).toMatchObject({
      event: 'refused',
      code: 'ERR_SIDECALL_PEER_DENIED',
      peer: { uid: 65_534 },
    });
    expect(await call(path, expected, owner)).toMatchObject({ seen: { uid: owner } });
  });

  it('row 7 in another pid namespace is pid 0 here: denied, unless a function accepts it', async () => {
    using directory = openDirectory();
    const attempt = async (
      name: string,
      authorize: ListenOptions['authorize'],
    ): Promise<unknown> => {
      const path = directory.file(name);
      // The listener lives in a child namespace; we look in from outside, then the other way round.
      await using server = await listening({ path, authorize });
      await using program = startProgram(
        'caller.mjs',
        ['-p', '-f', process.execPath, programPath('caller.mjs'), path, '{"expect":{"uid":0}}'],
        { command: 'unshare', env: { PATH: process.env.PATH } },
      );
      const outcome = await program.next();
      return { outcome, served: server.served() };
    };
    // Seen from inside, the listener outside has pid 0: the client's default refuses it.
    expect(await attempt('default', undefined)).toMatchObject({
      outcome: { code: 'ERR_SIDECALL_PEER_DENIED', message: expect.stringContaining('pid') },
      served: 0,
    });
  });

  it('a helper runs under another uid and still knows its parent; expect narrows it', async () => {
    // The program drops by itself once its code is loaded: the checkout may be unreadable to
    // others.
    const helper = await spawnHelper(process.execPath, [
      programPath('dropped-helper.mjs'),
      String(alice),
    ]);
    const who = (await helper.session.call('Desk.whoami')) as { peer: object; uid: number };
    expect(who).toMatchObject({
      uid: alice,
      peer: { origin: 'parent', uid: owner, pid: process.pid, capturedAt: 'spawn' },
    });
    expect(helper.peer).toMatchObject({ origin: 'spawned', pid: helper.pid });
    await helper.stop();
    const picky = spawnHelper(process.execPath, [
      programPath('dropped-helper.mjs'),
      String(alice),
      JSON.stringify({ expect: { uid: bob } }),
    ]);
    await expect(picky).rejects.toMatchObject({ code: 'ERR_SIDECALL_HELPER_FAILED' });
  });

  it('U12 others are served while strangers knock', async () => {
    using directory = openDirectory();
    await using server = await listening({ path: directory.file('s'), mode: '0666' });
    const expected = { expect: { uid: owner, modes: ['0666'] } } as const;
    await using session = await connect({ path: server.path, ...expected });
    const knocking = Promise.all([1, 2, 3].map((at) => call(server.path, expected, alice + at)));
    const desk = session.client(Whoami);
    for (let round = 0; round < 200; round += 1) await desk.whoami();
    for (const outcome of await knocking) expect(outcome.code).toBe('ERR_SIDECALL_PEER_GONE');
  });

  it('row 5 stays who connected, whoever the connection is handed to', async () => {
    using directory = openDirectory();
    const path = directory.file('s');
    await using _server = await listening({ path });
    // It connects as root and ends; its child, another user by then, makes the call.
    await using program = startProgram('peer', ['hand-on', path, String(alice)], {
      command: peerProgram,
    });
    const { first, said } = (await program.next()) as { first: number; said: { peer: object } };
    expect(first).toBe(program.pid);
    expect(said.peer).toMatchObject({
      pid: first,
      uid: owner,
      capturedAt: 'connect',
    });
  });

  it('row 9 a listener that a supervisor made shows its creator', async () => {
    using directory = openDirectory();
    const path = directory.file('s');
    await using program = startProgram('peer', ['supervise', path, String(alice)], {
      command: peerProgram,
    });
    await program.next();
    const stop = new AbortController();
    let seen: unknown;
    const attempt = connect({
      path,
      signal: stop.signal,
      expect: (peer) => {
        seen = peer;
        return false;
      },
    });
    await expect(attempt).rejects.toMatchObject({ code: 'ERR_SIDECALL_PEER_DENIED' });
    expect(seen).toMatchObject({ uid: owner, pid: program.pid, capturedAt: 'listen' });
    await program.exited;
  });
});
