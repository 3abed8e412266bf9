import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, statSync } from 'node:fs';
import { beforeAll, describe, expect, it } from 'vitest';
import { grpcTarget, listenGrpc } from '../../src/adapters/grpc/main.ts';
import { spawnHelper } from '../../src/helper/spawn-helper.ts';
import { connect } from '../../src/rendezvous/connect.ts';
import { type ListenOptions, listen } from '../../src/rendezvous/listen.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';
import { implement } from '../../src/rpc/serving/implementation.ts';
import { peerProgram, programPath, requireRoot, startProgram } from '../support/programs.ts';
import { alice, bob, call, listening, openDirectory, owner, Whoami } from '../support/users.ts';

beforeAll(requireRoot);

describe('another user at the path', () => {
  it('that squats the path is refused by the client, whatever it listens with', async () => {
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

  it('that connects to a gRPC listener is closed before a byte, and reaches no handler', async () => {
    using directory = openDirectory();
    let handled = 0;
    const denied: string[] = [];
    const Store = service('Store', { get: unary<void, number>() });
    await using grpc = await listenGrpc({
      services: [
        implement(Store, {
          get: () => {
            handled += 1;
            return handled;
          },
        }),
      ],
      path: directory.file('s'),
      mode: '0666',
      onEvent: ({ error }) => denied.push(error.code),
    });
    // The preface of HTTP/2 and an empty SETTINGS frame, as every client of gRPC begins.
    const script = `
      process.setgid(${alice}); process.setuid(${alice});
      const socket = require('node:net').createConnection(${JSON.stringify(grpc.path)});
      socket.on('error', () => {}).on('data', () => process.exit(9)).on('close', () => process.exit(0));
      socket.write('PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n');
      socket.write(Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]));
    `;
    const child = spawn(process.execPath, ['-e', script], { stdio: 'ignore' });
    expect(await once(child, 'exit')).toEqual([0, null]);
    expect(handled).toBe(0);
    expect(denied).toEqual(['ERR_SIDECALL_PEER_DENIED']);
    await using target = grpcTarget(`unix:${grpc.path}`);
    expect(await target.client(Store).get()).toBe(1);
  });

  it('that is unmapped may own the file only where expect names no owner', async () => {
    using directory = openDirectory();
    const path = directory.file('s');
    await using listener = startProgram('listener.mjs', [JSON.stringify({ path, mode: '0666' })]);
    await listener.next();
    chownSync(path, alice, alice);
    // The caller lives in a namespace that maps root alone.
    const outcome = async (expected: object): Promise<unknown> => {
      const program = [process.execPath, programPath('caller.mjs'), path];
      const args = [
        '-Ur',
        ...program,
        JSON.stringify({ expect: { ...expected, modes: ['0666'] } }),
      ];
      await using caller = startProgram('caller.mjs', args, { command: 'unshare' });
      return await caller.next();
    };
    expect(await outcome({ unmapped: true, owner })).toMatchObject({
      code: 'ERR_SIDECALL_PATH_UNSAFE',
      message: expect.stringContaining('expect.owner'),
    });
    expect(await outcome({ unmapped: true })).toMatchObject({ server: { pid: listener.pid } });
  });

  it('that has the uid 65534 is one like any other, where each uid has a name', async () => {
    using directory = openDirectory();
    const path = directory.file('s');
    const nobody = 65_534;
    const options = { path, mode: '0666', authorize: { uid: nobody } };
    await using listener = startProgram('listener.mjs', [JSON.stringify(options)]);
    expect(await listener.next()).toHaveProperty('path');
    const expected = { expect: { uid: owner, modes: ['0666'] } };
    expect(await call(path, expected, nobody)).toMatchObject({ seen: { uid: nobody } });
    expect(await call(path, expected, alice)).toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE' });
  });

  it('that owns the directory is not trusted with our socket', async () => {
    using directory = openDirectory();
    chownSync(directory.path, alice, alice);
    await expect(listen({ path: directory.file('s') })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_PATH_UNSAFE',
      message: expect.stringContaining(String(alice)),
    });
    const words = 'the rules of expect can name the user';
    await expect(connect({ path: directory.file('s') })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_PATH_UNSAFE',
      message: expect.stringContaining(words),
    });
    // A function is no rules: they would take its place.
    await expect(connect({ path: directory.file('s'), expect: () => true })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_PATH_UNSAFE',
      message: expect.not.stringContaining(words),
    });
    await expect(
      connect({ path: directory.file('s'), expect: { uid: alice } }),
    ).rejects.toMatchObject({ code: 'ERR_SIDECALL_NO_LISTENER' });
  });

  it('its socket or lock at our path is left alone', async () => {
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

  it('that our user namespace does not know is denied, even where the policy names 65534', async () => {
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

  it('in another pid namespace is pid 0 here: denied, unless a function accepts it', async () => {
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
    const who = (await helper.session.call('Demo.whoami')) as { peer: object; uid: number };
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

  it('others are served while strangers knock', async () => {
    using directory = openDirectory();
    await using server = await listening({ path: directory.file('s'), mode: '0666' });
    const expected = { expect: { uid: owner, modes: ['0666'] } } as const;
    await using session = await connect({ path: server.path, ...expected });
    const knocking = Promise.all([1, 2, 3].map((at) => call(server.path, expected, alice + at)));
    const demo = session.client(Whoami);
    for (let round = 0; round < 200; round += 1) await demo.whoami();
    for (const outcome of await knocking) expect(outcome.code).toBe('ERR_SIDECALL_PEER_GONE');
  });

  it('stays who connected, whoever the connection is handed to', async () => {
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

  it('a listener that a supervisor made shows its creator', async () => {
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
