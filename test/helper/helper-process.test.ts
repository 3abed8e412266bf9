import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { SidecallEvent } from '../../src/base/events.ts';
import { spawnHelper } from '../../src/helper/spawn-helper.ts';
import { service } from '../../src/rpc/contract/service.ts';
import { until } from '../support/contract.ts';
import { Demo, isRunning, isZombie, startHelper } from '../support/helper.ts';
import { peerProgram, programPath, scratchDirectory, startProgram } from '../support/programs.ts';

describe('a helper', () => {
  it('both know who the other is, and both call', async () => {
    const helper = await startHelper();
    const demo = helper.client(Demo);
    const who = await demo.whoami();
    expect(who.pid).toBe(helper.pid);
    expect(who.peer).toMatchObject({
      origin: 'parent',
      capturedAt: 'spawn',
      pid: process.pid,
      uid: process.geteuid?.(),
    });
    expect(helper.peer).toMatchObject({
      origin: 'spawned',
      capturedAt: 'spawn',
      pid: helper.pid,
      uid: process.geteuid?.(),
    });
    expect(Object.keys(who.env).filter((name) => name === 'SIDECALL_FD')).toEqual([]);
    expect(who.env).not.toHaveProperty('SIDECALL_PARENT');
    helper.session.serve(service('Demo', { add: Demo.methods.add }), {
      add: ({ a, b }, { peer }) => {
        expect(peer.pid).toBe(helper.pid);
        return { sum: a + b + 1000 };
      },
    });
    expect(await demo.callBack({ a: 1, b: 2 })).toEqual({ sum: 1003 });
    expect(await demo.echo(new Uint8Array(2_000_000))).toHaveLength(2_000_000);
    await helper.stop();
  });

  it('serves the helper from the side of the helper object, and throws when served twice', async () => {
    await using helper = await startHelper();
    const Callback = service('Demo', { add: Demo.methods.add });
    helper.serve(Callback, { add: () => ({ sum: 5 }) });
    expect(() => helper.serve(Callback, { add: () => ({ sum: 5 }) })).toThrow(TypeError);
    expect(await helper.client(Demo).callBack({ a: 0, b: 0 })).toEqual({ sum: 5 });
  });

  it('in Electron its own executable is run as Node, and what the fuse does is said', () => {
    const script = (command: string): string => `
      Object.defineProperty(process.versions, 'electron', { value: '45.0.0' });
      const { spawnHelper } = await import(${JSON.stringify(programPath('../../../dist/index.js'))});
      const show = "console.log(String(process.env.ELECTRON_RUN_AS_NODE)); process.exit(7)";
      const { message } = await spawnHelper(${command}, ['-e', show]).catch((error) => error);
      console.log(message);`;
    const outputOf = (command: string): string =>
      execFileSync(process.execPath, ['--input-type=module', '-e', script(command)], {
        encoding: 'utf8',
      });
    const own = outputOf('process.execPath');
    expect(own).toMatch(/^1\n/);
    expect(own).toContain('exit code 7');
    expect(own).toContain('runAsNode fuse');
    const other = outputOf("'node'");
    expect(other).toMatch(/^undefined\n/);
    expect(other).not.toContain('fuse');
  });

  it('gives its output, and closes its input', async () => {
    const helper = await spawnHelper(
      process.execPath,
      [
        '-e',
        `process.stdin.on('end', () => console.log('no input')).resume();
        import(${JSON.stringify(new URL('../../dist/index.js', import.meta.url).href)}).then((s) => s.parent());`,
      ],
      { stdout: 'pipe', stderr: 'ignore' },
    );
    expect(helper.stderr).toBeNull();
    let said = '';
    helper.stdout?.on('data', (chunk) => {
      said += chunk;
    });
    await until(() => said.includes('no input'));
    await helper.stop();
  });

  it('rejects what is pending when it dies, and says how it ended', async () => {
    const events: SidecallEvent[] = [];
    const helper = await startHelper({ onEvent: (event) => events.push(event) });
    const demo = helper.client(Demo);
    const calls = Array.from({ length: 100 }, () => demo.hang());
    const settled = Promise.allSettled(calls);
    await demo.exit(7);
    for (const outcome of await settled) {
      expect(outcome).toMatchObject({
        reason: { code: 'ERR_SIDECALL_PEER_GONE', delivered: 'unknown' },
      });
    }
    expect(await helper.exited).toEqual({ code: 7, signal: null });
    expect(events.find(({ type }) => type === 'helper-exited')?.error.message).toContain('7');
    await expect(demo.add({ a: 1, b: 1 })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_PEER_GONE',
      delivered: 'no',
    });
    expect(await helper.stop()).toEqual({ code: 7, signal: null });
  });

  it('stop() answers calls in flight, then ends the process', async () => {
    const helper = await startHelper();
    const demo = helper.client(Demo);
    const calls = Array.from({ length: 50 }, (_, a) => demo.add({ a, b: 0 }));
    const [exit, , sums] = await Promise.all([helper.stop(), helper.stop(), Promise.all(calls)]);
    expect(sums).toHaveLength(50);
    expect(exit).toEqual({ code: 0, signal: null });
    expect(isRunning(helper.pid)).toBe(false);
    await expect(demo.add({ a: 1, b: 1 })).rejects.toMatchObject({ code: 'ERR_SIDECALL_CLOSED' });
  });

  it('stop() lets a helper end by itself, with what it does at its end', async () => {
    using scratch = scratchDirectory();
    const written = scratch.file('written');
    writeFileSync(
      scratch.file('helper.mjs'),
      `import { writeFileSync } from 'node:fs';
      import { parent } from ${JSON.stringify(new URL('../../dist/index.js', import.meta.url).href)};
      process.on('exit', () => writeFileSync(${JSON.stringify(written)}, 'exit'));
      await parent();`,
    );
    const helper = await spawnHelper(process.execPath, [scratch.file('helper.mjs')]);
    expect(await helper.stop()).toEqual({ code: 0, signal: null });
    expect(readFileSync(written, 'utf8')).toBe('exit');
  });

  it('stop() sends SIGTERM to a helper that goes on', async () => {
    const helper = await spawnHelper(process.execPath, [programPath('rude.mjs'), 'goes-on']);
    expect(await helper.stop({ killGraceMs: 600_000 })).toEqual({ code: null, signal: 'SIGTERM' });
  });

  it('stop() kills what ignores SIGTERM, and what is blocked', async () => {
    const stubborn = await spawnHelper(process.execPath, [programPath('rude.mjs'), 'stubborn']);
    expect(await stubborn.stop({ killGraceMs: 50 })).toEqual({ code: null, signal: 'SIGKILL' });
    const blocked = await startHelper();
    await blocked.client(Demo).block();
    expect(await blocked.stop({ deadlineMs: 50, killGraceMs: 50 })).toMatchObject({ code: null });
    expect(isRunning(blocked.pid)).toBe(false);
  });

  it('dies with its parent even while its loop is blocked', async () => {
    await using spawner = startProgram('spawner.mjs', ['block', programPath('helper.mjs')]);
    const { pid } = (await spawner.next()) as { pid: number };
    await spawner.next();
    expect(isRunning(pid)).toBe(true);
    spawner.child.kill('SIGKILL');
    await spawner.exited;
    await until(() => !isRunning(pid) || isZombie(pid));
  });

  it.each([
    ['exit', 5],
    ['throw', 1],
  ])('is not left behind when its parent ends by %s in mid-call', async (how, code) => {
    await using spawner = startProgram('spawner.mjs', [how, programPath('helper.mjs')]);
    const { pid } = (await spawner.next()) as { pid: number };
    expect(await spawner.exited).toEqual({ code, signal: null });
    await until(() => !isRunning(pid) || isZombie(pid));
  });

  it('unref() lets its parent exit, and without it the parent stays', async () => {
    await using leaving = startProgram('spawner.mjs', ['unref', programPath('helper.mjs')]);
    await leaving.next();
    expect(await leaving.exited).toEqual({ code: 0, signal: null });
    await using staying = startProgram('spawner.mjs', ['stay', programPath('helper.mjs')]);
    await staying.next();
    const early = await Promise.race([
      staying.exited,
      new Promise((done) => setTimeout(done, 500, 'stays')),
    ]);
    expect(early).toBe('stays');
  });

  it('unref() lets its parent exit while the next process is waited for, too', async () => {
    const args = ['unref-restart', programPath('helper.mjs')];
    await using leaving = startProgram('spawner.mjs', args);
    await leaving.next();
    expect(await leaving.exited).toEqual({ code: 0, signal: null });
  });

  it('need not be Node: what docs/protocol.md says is enough', async () => {
    const helper = await spawnHelper(peerProgram, ['helper']);
    expect(await helper.session.call('Any.thing', { x: 'ü' })).toEqual({
      method: 'Any.thing',
      request: { x: 'ü' },
      parent: String(process.pid),
      pid: helper.pid,
      grandchild: 0,
    });
    expect(await helper.stop()).toBeDefined();
  });

  it.each(['terminate', 'exit', 'throw', 'SIGKILL'])(
    'of a worker thread dies with it though its loop is blocked: %s',
    async (how) => {
      const args = [how, programPath('helper.mjs')];
      await using spawner = startProgram('thread-spawner.mjs', args);
      const { pid } = (await spawner.next()) as { pid: number };
      if (how === 'SIGKILL') spawner.child.kill('SIGKILL');
      await until(() => !isRunning(pid) || isZombie(pid));
    },
  );

  it('a grandchild that holds its end does not hide its death', async () => {
    const helper = await spawnHelper(peerProgram, ['helper-with-grandchild']);
    const { grandchild } = (await helper.session.call('x', 1)) as { grandchild: number };
    const hanging = expect(helper.session.call('y', 1, { timeoutMs: 0 })).rejects.toBeDefined();
    await hanging;
    const pending = helper.session.closed;
    process.kill(helper.pid, 'SIGKILL');
    expect((await pending)?.code).toBe('ERR_SIDECALL_PEER_GONE');
    expect(isRunning(grandchild)).toBe(true);
    process.kill(grandchild, 'SIGKILL');
    await helper.exited;
  });

  it('a program that it starts inherits no descriptor of the session', async () => {
    const dist = new URL('../../dist/index.js', import.meta.url).href;
    const helper = await spawnHelper(process.execPath, [
      '-e',
      `import(${JSON.stringify(dist)}).then(async ({ parent, service, unary }) => {
        const session = await parent();
        const { spawn } = await import('node:child_process');
        const child = spawn('sleep', ['60'], { stdio: 'ignore' });
        session.serve(service('G', { child: unary() }), { child: () => child.pid });
      });`,
    ]);
    const pid = (await helper.session.call('G.child')) as number;
    const targets = readdirSync(`/proc/${pid}/fd`).map((fd) =>
      readlinkSync(`/proc/${pid}/fd/${fd}`),
    );
    expect(targets.filter((target) => target.startsWith('socket:'))).toEqual([]);
    process.kill(pid, 'SIGKILL');
    await helper.stop();
  });
});
