import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { requireNative } from '../../src/addon/load-addon.ts';
import type { Peer } from '../../src/base/peer.ts';
import { kernelPeer, ownUid, unmappedUid, unmappedUidIn } from '../../src/uds/peer-credentials.ts';
import { authorize, checkPolicy, type PeerPolicy } from '../../src/uds/peer-policy.ts';
import { peerProgram } from '../support/programs.ts';

const native = requireNative('the test');
const me = ownUid();
const never = new AbortController().signal;

function peer(ids: Partial<Peer> = {}): Peer {
  return {
    origin: 'kernel',
    capturedAt: 'connect',
    pid: 4711,
    pidIsHint: false,
    uid: me,
    gid: 100,
    groups: [100, 27],
    ...ids,
  };
}

function decide(policy: PeerPolicy | undefined, who: Peer, isAlive?: boolean): Promise<void> {
  return authorize(policy, { peer: who, isAlive }, never);
}

const stranger = me + 1001;

describe('the uid of users without a name here', () => {
  it.each([
    ['a host', '         0          0 4294967295\n', -1],
    ['a host in two ranges', '0 0 65536\n65536 65536 4294901759\n', -1],
    ['a container of one user', '         0       1000          1\n', 65534],
    ['a container of 65,536 users', '0 1000 1\n1 100000 65536\n', 65534],
    ['a namespace that maps nobody yet', '', 65534],
  ])('is none where each id has one: %s', (_name, map, uid) => {
    expect(unmappedUidIn(map, '65534\n')).toBe(uid);
  });
});

describe('a policy', () => {
  it.each<[string, PeerPolicy | undefined, Partial<Peer>]>([
    ['no policy, our uid', undefined, {}],
    ['empty rules, our uid', {}, {}],
    ['a named uid', { uid: stranger }, { uid: stranger }],
    ['a list of uids', { uid: [1, stranger] }, { uid: stranger }],
    ['a gid, whatever the uid', { gid: 100 }, { uid: stranger }],
    ['a supplementary group', { groups: 27 }, { uid: stranger }],
    ['the effective group as a group', { groups: [100] }, { uid: stranger }],
    ['a pid of ours', { pid: 4711 }, {}],
    ['all of them', { uid: stranger, gid: 100, groups: 27, pid: [1, 4711] }, { uid: stranger }],
    ['a function', (who: Peer) => who.pid === 4711, { uid: stranger }],
    ['an async function', async () => true, { uid: stranger }],
    ['a function that accepts pid 0', () => true, { pid: 0 }],
  ])('accepts %s', async (_name, policy, ids) => {
    await expect(decide(policy, peer(ids), true)).resolves.toBeUndefined();
  });

  it.each<[string, PeerPolicy | undefined, Partial<Peer>]>([
    ['another uid by default', undefined, { uid: stranger }],
    ['another uid with empty rules', {}, { uid: stranger }],
    ['root, unless named', undefined, { uid: me === 0 ? 1 : 0 }],
    ['a uid that is not listed', { uid: [1, 2] }, { uid: stranger }],
    ['another gid', { gid: 7 }, {}],
    ['a process in none of the groups', { groups: [7, 8] }, {}],
    ['a group where the system tells none', { groups: 27 }, { groups: undefined }],
    ['another pid', { pid: 1 }, {}],
    ['our pid under another uid', { pid: 4711 }, { uid: stranger }],
    ['an unmapped uid', undefined, { uid: unmappedUid }],
    ['an unmapped uid that is named', { uid: 65534 }, { uid: unmappedUid }],
    ['an unmapped uid that a function accepts', () => true, { uid: unmappedUid }],
    ['pid 0', undefined, { pid: 0 }],
    ['one rule of several', { uid: me, gid: 7 }, {}],
    ['a peer without ids', {}, { uid: undefined, gid: undefined, pid: undefined }],
    ['a function that says no', () => false, {}],
    ['a function that says something like yes', (() => 1) as never, {}],
    ['a function that says nothing', (() => undefined) as never, {}],
    [
      'a function that throws',
      () => {
        throw new Error('x');
      },
      {},
    ],
    ['a function that rejects', () => Promise.reject(new Error('x')), {}],
  ])('refuses %s', async (_name, policy, ids) => {
    await expect(decide(policy, peer(ids), true)).rejects.toMatchObject({
      code: 'ERR_SIDECALL_PEER_DENIED',
      retryable: false,
      delivered: 'no',
    });
  });

  it('refuses a pid whose process has ended', async () => {
    await expect(decide({ pid: 4711 }, peer(), false)).rejects.toMatchObject({
      code: 'ERR_SIDECALL_PEER_DENIED',
    });
    await expect(decide({ pid: 4711 }, peer(), undefined)).resolves.toBeUndefined();
  });

  it('is bounded by the deadline where it never settles', async () => {
    const late = new AbortController();
    const decision = authorize(
      () => new Promise(() => undefined),
      { peer: peer(), isAlive: true },
      late.signal,
    );
    late.abort(new Error('too late'));
    await expect(decision).rejects.toThrow('too late');
  });

  it.each([
    ['an unknown rule', { user: 1 }],
    ['a name instead of an id', { uid: 'root' }],
    ['a negative id', { uid: -1 }],
    ['a fraction', { gid: 1.5 }],
    ['the id that means nobody', { uid: 0xffff_ffff }],
    ['a list with a hole', { pid: [1, undefined] }],
    ['null', null],
    ['true', true],
    ['an empty list, which would refuse everybody', { uid: [] }],
  ])('throws for %s', (_name, policy) => {
    expect(() => checkPolicy('authorize', policy as never)).toThrow(TypeError);
  });
});

describe('the kernel', () => {
  it('names the creator of a pair at both ends', () => {
    const pair = native.socketPair();
    const { peer: who } = kernelPeer(native, pair.near, 'spawn');
    expect(who).toMatchObject({ origin: 'parent', pid: process.pid, uid: me, pidIsHint: false });
    native.closeDescriptor(pair.near);
    native.closeDescriptor(pair.far);
  });

  it('is asked again and again while connecting processes are killed: never a wrong answer', async () => {
    const directory = process.env.TMPDIR ?? '/tmp';
    const path = `${directory}/row3-${process.pid}.sock`;
    const listener = native.bindSocket(path);
    native.listenOn(listener, 64);
    const { createServer } = await import('node:net');
    const outcomes: string[] = [];
    const server = createServer({ pauseOnConnect: true }, (socket) => {
      const fd = native.duplicate((socket as unknown as { _handle: { fd: number } })._handle.fd);
      socket.destroy();
      try {
        const { peer: who } = kernelPeer(native, fd, 'connect');
        outcomes.push(who.uid === me ? 'us' : 'WRONG');
      } catch (error) {
        outcomes.push((error as { code: string }).code);
      }
      native.closeDescriptor(fd);
    });
    server.listen({ fd: listener });
    native.disownDescriptor(listener);
    const child = spawn(peerProgram, ['connect-and-die', path], { stdio: 'ignore' });
    await once(child, 'exit');
    const { until } = await import('../support/contract.ts');
    await until(() => outcomes.length === 1000);
    server.close();
    rmSync(path);
    expect(new Set(outcomes).has('WRONG')).toBe(false);
    for (const outcome of new Set(outcomes)) {
      expect(['us', 'ERR_SIDECALL_CREDENTIALS_UNAVAILABLE']).toContain(outcome);
    }
  });
});
