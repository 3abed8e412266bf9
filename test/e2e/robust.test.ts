import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { createConnection } from 'node:net';
import { describe, expect, it } from 'vitest';
import { requireNative } from '../../src/addon/load-addon.ts';
import type { SidecallEvent } from '../../src/base/events.ts';
import { spawnHelper } from '../../src/helper/spawn-helper.ts';
import { connect } from '../../src/rendezvous/connect.ts';
import { listen } from '../../src/rendezvous/listen.ts';
import { canary } from '../support/canary.ts';
import { Demo, demoHandlers, turns, until } from '../support/contract.ts';
import { countDescriptors, countMaps } from '../support/leaks.ts';
import { peerProgram, programPath, scratchDirectory, startProgram } from '../support/programs.ts';
import { rounds } from '../support/rounds.ts';

const MiB = 1024 * 1024;

function flood(
  path: string,
  what: string,
): AsyncDisposable & { next: () => Promise<Record<string, unknown>> } {
  return startProgram('peer', [what, path], { command: peerProgram });
}

/** Linux 6.16 and later keep descriptors out; earlier ones drop them as we read. */
function kernelRefuses(): boolean {
  const native = requireNative('the test');
  const { near, far } = native.socketPair();
  try {
    return native.refuseDescriptors(near);
  } finally {
    native.closeDescriptor(near);
    native.closeDescriptor(far);
  }
}

async function usedBytes(): Promise<number> {
  for (let round = 0; round < 3; round += 1) {
    await turns(5);
    globalThis.gc?.();
  }
  const { heapUsed, external, arrayBuffers } = process.memoryUsage();
  return heapUsed + external + arrayBuffers;
}

describe('a listener among peers with bad manners', () => {
  it('takes no descriptor of 100,000 offered', async () => {
    await using listener = await listen();
    listener.serve(Demo, demoHandlers());
    await using session = await connect({ path: listener.path });
    const bird = canary(session);
    const before = countDescriptors();
    await using peer = flood(listener.path, 'descriptors');
    const { refused } = (await peer.next()) as { refused: number };
    expect(refused).toBe(kernelRefuses() ? 100_000 : 0);
    // The session itself and the pipes to the program; not the descriptors that it offered.
    expect(countDescriptors()).toBeLessThan(before + 10);
    expect(await bird.stop()).toBeGreaterThan(0);
  });

  it('a descriptor cannot even be queued before anybody was let in', async () => {
    await using listener = await listen({ authorize: () => false });
    await using peer = flood(listener.path, 'early-descriptors');
    expect(await peer.next()).toHaveProperty(kernelRefuses() ? 'refused' : 'sent');
  });

  it('the end of one direction is the end of the session', async () => {
    const events: SidecallEvent[] = [];
    await using listener = await listen({ onEvent: (event) => events.push(event) });
    await using peer = flood(listener.path, 'half');
    expect(await peer.next()).toEqual({ ended: true });
    await until(() => listener.sessionCount === 0 && events.length === 1);
    expect(events[0]).toMatchObject({
      type: 'session-failed',
      error: { code: 'ERR_SIDECALL_PEER_GONE' },
    });
  });

  it('a peer that reads nothing and writes for ever ends its own session only', async () => {
    await using listener = await listen();
    listener.serve(Demo, demoHandlers());
    await using session = await connect({ path: listener.path });
    const bird = canary(session);
    await using peer = flood(listener.path, 'write-for-ever');
    await peer.next();
    await until(() => listener.sessionCount === 1);
    expect(await bird.stop()).toBeGreaterThan(0);
  });

  it('a peer that stops reading costs a bounded amount, others are served', async () => {
    await using listener = await listen();
    listener.serve(Demo, demoHandlers({ same: (value) => (value as string).repeat(20) }));
    await using session = await connect({ path: listener.path });
    const before = await usedBytes();
    const bird = canary(session);
    await using peer = flood(listener.path, 'stall');
    await peer.next();
    const after = await usedBytes();
    expect(await bird.stop()).toBeGreaterThan(0);
    // The bounds: 64 MiB of answers, 16 MiB of requests, 1 MiB of queue.
    expect(after - before).toBeLessThan(100 * MiB);
  });

  it('a peer that was stopped for a while is not dead', async () => {
    using scratch = scratchDirectory();
    const path = scratch.file('s');
    await using program = startProgram('listener.mjs', [JSON.stringify({ path })]);
    await program.next();
    await using session = await connect({ path });
    program.child.kill('SIGSTOP');
    const call = session.call('Demo.add', { a: 1, b: 2 });
    await expect(
      session.call('Demo.add', { a: 1, b: 2 }, { timeoutMs: 100 }),
    ).rejects.toMatchObject({
      code: 'ERR_SIDECALL_DEADLINE_EXCEEDED',
    });
    program.child.kill('SIGCONT');
    expect(await call).toEqual({ sum: 3 });
  });

  it('a loop that was blocked loses nothing', async () => {
    await using listener = await listen();
    listener.serve(Demo, demoHandlers());
    await using session = await connect({ path: listener.path });
    const demo = session.client(Demo);
    const calls = Array.from({ length: 100 }, (_, a) => demo.add({ a, b: 0 }));
    const until = performance.now() + 1000;
    while (performance.now() < until);
    expect(await Promise.all(calls)).toHaveLength(100);
  });

  it('thousands of connects and failed hellos leave no descriptor, mapping, file or memory', async () => {
    using scratch = scratchDirectory();
    const path = scratch.file('s');
    await using program = startProgram('listener.mjs', [
      JSON.stringify({ path, helloTimeoutMs: 60_000 }),
    ]);
    const { pid } = (await program.next()) as { pid: number };
    const memory = async (): Promise<{ usedInHeap: number; outsideHeap: number }> => {
      program.tell('collect');
      for (;;) {
        const line = await program.next();
        if ('usedInHeap' in line) return line as Awaited<ReturnType<typeof memory>>;
      }
    };
    const cycle = async (count: number): Promise<void> => {
      const worker = async (): Promise<void> => {
        for (let round = 0; round < count / 8; round += 1) {
          const session = await connect({ path });
          expect(await session.call('Demo.add', { a: round, b: 1 })).toEqual({ sum: round + 1 });
          await session.close();
        }
      };
      await Promise.all(Array.from({ length: 8 }, worker));
    };
    const failing = async (count: number): Promise<void> => {
      for (let round = 0; round < count; round += 10) {
        await Promise.all(
          Array.from({ length: 10 }, async (_, at) => {
            const socket = createConnection(path);
            socket.on('error', () => undefined).resume();
            const bytes = [Buffer.alloc(64, 0x41), Buffer.alloc(7), Buffer.alloc(64)][at % 3];
            socket.write(bytes as Buffer);
            if (at % 3 === 1) socket.end();
            await once(socket, 'close');
          }),
        );
      }
    };
    await cycle(rounds(2_000, 1_000)); // whatever grows once has grown
    await failing(200);
    const before = {
      listener: await memory(),
      own: await usedBytes(),
      descriptors: countDescriptors(pid),
      maps: countMaps(pid),
      ownDescriptors: countDescriptors(),
    };
    await cycle(rounds(10_000, 2_000));
    await failing(rounds(1_000, 300));
    await until(() => countDescriptors() <= before.ownDescriptors);
    await until(() => countDescriptors(pid) <= before.descriptors);
    await until(() => countMaps(pid) <= before.maps);
    expect((await usedBytes()) - before.own).toBeLessThan(8 * MiB);
    let after = await memory();
    // 0.35 to 0.4 MiB and 0.6 to 1.9 MiB were seen; 1 KiB for each connection would be 2 to 10 MiB.
    // On Node 22 to 26 it goes up and down by 9 to 34 MiB outside of the heap, not on, in 18,000
    // connects: what leaks is there after each further look.
    const most = before.listener.outsideHeap + 6 * MiB;
    for (let look = 0; look < 8 && after.outsideHeap >= most; look += 1) {
      await cycle(rounds(1_000, 200));
      after = await memory();
    }
    expect(after.usedInHeap - before.listener.usedInHeap).toBeLessThan(1.5 * MiB);
    const varies = Number(process.versions.modules) > 115 ? 16 * MiB : 0;
    expect(after.outsideHeap).toBeLessThan(most + varies);
    expect(readdirSync(scratch.path).sort()).toEqual(['s', 's.lock']);
  });

  it('closing works where the directory no longer lets it, and the sessions are closed', async () => {
    using scratch = scratchDirectory();
    const helper = `
      import { listen, connect } from ${JSON.stringify(new URL('../../dist/index.js', import.meta.url).href)};
      import { chmodSync } from 'node:fs';
      import { ownCredentials } from ${JSON.stringify(new URL('../../dist/index.js', import.meta.url).href)};
      ownCredentials();
      if (process.getuid() === 0) {
        // No mode holds root back.
        process.setgroups([]); process.setgid(61001); process.setuid(61001);
      }
      const listener = await listen({ path: ${JSON.stringify(scratch.file('mine/s'))} });
      const session = await connect({ path: listener.path });
      chmodSync(${JSON.stringify(scratch.file('mine'))}, 0);
      await new Promise((done) => setTimeout(done, 300));
      await Promise.all([listener.close(), listener.closed]);
      await session.closed;
      console.log('{"closed":true}');
    `;
    writeFileSync(scratch.file('program.mjs'), helper);
    mkdirSync(scratch.file('mine'), 0o700);
    if (process.getuid?.() === 0) chownSync(scratch.file('mine'), 61_001, 61_001);
    chmodSync(scratch.path, 0o755);
    const child = spawn(process.execPath, [scratch.file('program.mjs')], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let said = '';
    child.stdout.on('data', (chunk) => {
      said += chunk;
    });
    const [code] = await once(child, 'close');
    chmodSync(scratch.file('mine'), 0o700); // so that it can be removed
    expect({ code, said: said.trim() }).toEqual({ code: 0, said: '{"closed":true}' });
  });

  const warning = /^\(node:\d+\) \[SIDECALL_HANDLER_FAILED\] Warning: /;

  it.each([
    ['nothing where events are taken', 'onEvent: () => undefined', [], 0],
    ['nothing where warnings are off', '', ['--no-warnings'], 0],
    ['a warning of the process where events are not taken', '', [], 1],
  ])('writes %s, whatever happens', async (_name, option, flags, warnings) => {
    using scratch = scratchDirectory();
    const path = scratch.file('s');
    const dist = JSON.stringify(new URL('../../dist/index.js', import.meta.url).href);
    const program = `
      import { listen, connect, service, unary } from ${dist};
      const S = service('S', { x: unary() });
      let asked = 0;
      const authorize = () => asked++ % 2 === 0;
      const listener = await listen({ path: ${JSON.stringify(path)}, authorize, ${option} });
      listener.serve(S, { x: () => { throw new Error('secret'); } });
      for (let at = 0; at < 20; at += 1) {
        try {
          const session = await connect({ path: ${JSON.stringify(path)} });
          await session.client(S).x().catch(() => undefined);
          await session.close();
        } catch {}
      }
      await listener.close();
    `;
    writeFileSync(scratch.file('quiet.mjs'), program);
    const child = spawn(process.execPath, [...flags, scratch.file('quiet.mjs')], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const said = { out: '', error: '' };
    child.stdout.on('data', (chunk) => {
      said.out += chunk;
    });
    child.stderr.on('data', (chunk) => {
      said.error += chunk;
    });
    const [code] = await once(child, 'close');
    expect({ code, out: said.out }).toEqual({ code: 0, out: '' });
    expect(said.error.split('\n').filter((line) => warning.test(line))).toHaveLength(warnings);
    if (warnings === 0) expect(said.error).toBe('');
  });
});

describe('one message of 256 MiB', () => {
  it.each(['ring', 'socket'])(
    'leaves no memory behind ten seconds later, by the %s',
    async (lane) => {
      const program = ['--expose-gc', programPath('large-parent.mjs'), lane];
      await using parent = startProgram('node', program, { command: 'node' });
      const said = (await parent.next()) as {
        bytes: number;
        last: number;
        lane: string;
        before: Record<string, number>;
        during: Record<string, number>;
        after: Record<string, number>;
      };
      expect(said).toMatchObject({ bytes: 256 * MiB, last: 7, lane });
      for (const process of ['parent', 'helper']) {
        const before = said.before[process] as number;
        expect(said.during[process]).toBeGreaterThan(before + 200); // it was seen at all
        // A busy process keeps up to 64 MiB (docs/adr/0008-memory-of-long-messages.md).
        expect(said.after[process]).toBeLessThan(before + 64);
      }
      await parent.exited;
    },
  );
});

describe('a helper that lives on without its session', () => {
  it('fails calls at once, and is ended and started again where that is wanted', async () => {
    const dist = JSON.stringify(new URL('../../dist/index.js', import.meta.url).href);
    const script = `import(${dist}).then(async ({ parent, service, unary }) => {
      const session = await parent();
      session.serve(service('L', { leave: unary(), pid: unary() }), {
        leave: () => { setImmediate(() => session.close({ deadlineMs: 0 })); },
        pid: () => process.pid,
      });
      setInterval(() => undefined, 1000);
    });`;
    const plain = await spawnHelper(process.execPath, ['-e', script]);
    await plain.session.call('L.leave').catch(() => undefined);
    await plain.session.closed;
    await expect(plain.session.call('L.pid')).rejects.toMatchObject({ delivered: 'no' });
    expect(await plain.exited).toMatchObject({ signal: 'SIGTERM' });
    const restarted = await spawnHelper(process.execPath, ['-e', script], { restart: true });
    const first = restarted.pid;
    await restarted.session.call('L.leave').catch(() => undefined);
    await restarted.session.closed;
    const { service, unary } = await import('../../src/rpc/contract/service.ts');
    const life = restarted.client(service('L', { pid: unary<void, number>() }));
    expect(await life.pid()).not.toBe(first);
    await restarted.stop();
  });
});
