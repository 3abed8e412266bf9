import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { spawnHelper } from '../../src/helper/spawn-helper.ts';
import { programPath, scratchDirectory } from '../support/programs.ts';

describe('without the addon', () => {
  const env = { SIDECALL_NATIVE: 'off' };

  it('helpers run over an inherited pipe, and identity is by inheritance', async () => {
    const dist = JSON.stringify(new URL('../../dist/index.js', import.meta.url).href);
    const script = `
      import { capabilities, spawnHelper } from ${dist};
      const helper = await spawnHelper(process.execPath, [${JSON.stringify(programPath('helper.mjs'))}]);
      const { peer } = await helper.session.call('Demo.whoami');
      const sum = await helper.session.call('Demo.add', { a: 1, b: 2 });
      const calls = Array.from({ length: 200 }, (_, a) => helper.session.call('Demo.add', { a, b: 0 }));
      const sums = (await Promise.all(calls)).reduce((all, { sum }) => all + sum, 0);
      const big = await helper.session.call('Demo.add', { a: 'x'.repeat(300_000), b: '' });
      const hanging = helper.session.call('Demo.hang').catch((error) => error.code);
      process.kill(helper.pid, 'SIGKILL');
      console.log(JSON.stringify({ peer, own: helper.peer, pid: process.pid, sum, sums, big: big.sum.length,
        gone: await hanging, exit: await helper.exited, capabilities: capabilities() }));
    `;
    using scratch = scratchDirectory();
    writeFileSync(scratch.file('main.mjs'), script);
    const run = async (ownEnv: NodeJS.ProcessEnv): Promise<Record<string, unknown>> => {
      const child = spawn(process.execPath, [scratch.file('main.mjs')], {
        stdio: ['ignore', 'pipe', 'inherit'],
        env: { ...process.env, ...ownEnv },
      });
      let said = '';
      child.stdout.on('data', (chunk) => {
        said += chunk;
      });
      await once(child, 'close');
      return JSON.parse(said);
    };
    const outcome = await run(env);
    expect(outcome).toMatchObject({
      peer: { origin: 'parent', pid: outcome.pid, pidIsHint: true },
      own: { origin: 'spawned' },
      sum: { sum: 3 },
      sums: 19_900,
      big: 300_000,
      gone: 'ERR_SIDECALL_PEER_GONE',
      exit: { code: null, signal: 'SIGKILL' },
      capabilities: {
        addon: false,
        addonReason: expect.stringContaining('SIDECALL_NATIVE'),
        helpers: true,
      },
    });
    const missing = await run({ SIDECALL_NATIVE: '/no/such/file.node' });
    expect(missing.capabilities).toMatchObject({
      addon: false,
      addonReason: expect.stringContaining('/no/such'),
    });
  });

  it('listen and connect fail closed, unless path permissions are asked for by name', async () => {
    using scratch = scratchDirectory();
    const dist = JSON.stringify(new URL('../../dist/index.js', import.meta.url).href);
    const path = JSON.stringify(scratch.file('s'));
    writeFileSync(
      scratch.file('main.mjs'),
      `
      import { connect, listen, ownCredentials, service, unary } from ${dist};
      import { chmodSync, existsSync, statSync } from 'node:fs';
      const codeOf = (promise) => promise.then(() => 'fine', (error) => error.code);
      const identity = 'path-permissions';
      const S = service('S', { who: unary() });
      const failed = [await codeOf(listen({ path: ${path} })), await codeOf(connect({ path: ${path} }))];
      try { ownCredentials(); } catch (error) { failed.push(error.code); }
      const rules = await codeOf(listen({ path: ${path}, identity, authorize: { uid: 0 } }));
      const listener = await listen({ path: ${path}, identity });
      listener.serve(S, { who: (_request, { peer }) => ({ ...peer, uid: peer.uid === undefined ? 'none' : peer.uid }) });
      const mode = (statSync(${path}).mode & 0o777).toString(8);
      const taken = await codeOf(listen({ path: ${path}, identity }));
      const session = await connect({ path: ${path}, identity });
      const who = await session.client(S).who();
      const refused = await codeOf(connect({ path: ${path}, identity, expect: () => false }));
      chmodSync(${JSON.stringify(scratch.path)}, 0o777);
      const open = [await codeOf(connect({ path: ${path}, identity })), await codeOf(listen({ path: ${path} + '2', identity }))];
      chmodSync(${JSON.stringify(scratch.path)}, 0o700);
      await session.close();
      await listener.close();
      console.log(JSON.stringify({ failed, rules, mode, taken, who, refused, open, left: existsSync(${path}) }));
    `,
    );
    const child = spawn(process.execPath, [scratch.file('main.mjs')], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, ...env },
    });
    let said = '';
    child.stdout.on('data', (chunk) => {
      said += chunk;
    });
    await once(child, 'close');
    expect(JSON.parse(said)).toMatchObject({
      failed: Array(3).fill('ERR_SIDECALL_ADDON_UNAVAILABLE'),
      rules: 'ERR_INVALID_ARG_VALUE',
      mode: '600',
      taken: 'ERR_SIDECALL_PATH_IN_USE',
      who: { origin: 'path', uid: 'none' },
      refused: 'ERR_SIDECALL_PEER_DENIED',
      open: ['ERR_SIDECALL_PATH_UNSAFE', 'ERR_SIDECALL_PATH_UNSAFE'],
      left: false,
    });
  });

  it('a parent with the addon and a helper without it understand each other, and the reverse', async () => {
    const script = programPath('helper.mjs');
    const helper = await spawnHelper(process.execPath, [script], {
      env: { ...process.env, ...env },
    });
    expect(await helper.session.call('Demo.add', { a: 1, b: 2 })).toEqual({ sum: 3 });
    await helper.stop();
    expect(existsSync(script)).toBe(true);
  });
});
