import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, writeFileSync } from 'node:fs';
import { createConnection, createServer, type Socket } from 'node:net';
import { pathToFileURL } from 'node:url';
import { describe, expect, it } from 'vitest';
import { spawnHelper } from '../../src/helper/spawn-helper.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';
import { programPath, scratchDirectory, startProgram } from '../support/programs.ts';

describe('parent()', () => {
  it('rejects outside a helper', async () => {
    await using program = startProgram('orphan.mjs');
    expect(await program.next()).toMatchObject({
      code: 'ERR_SIDECALL_HELPER_FAILED',
      variable: null,
    });
  });

  it.each(['', 'x', '-1', '0', '1', '2', '999', '3', '3.5', '99999999999'])(
    'rejects with SIDECALL_FD=%j, and deletes it',
    async (value) => {
      await using program = startProgram('orphan.mjs', [], { env: { SIDECALL_FD: value } });
      expect(await program.next()).toMatchObject({
        code: 'ERR_SIDECALL_HELPER_FAILED',
        variable: null,
      });
    },
  );

  it('rejects a descriptor that is a file, a TCP socket, or a pair that says nothing', async () => {
    const server = createServer((socket) => socket.on('error', () => undefined)).listen(0);
    await once(server, 'listening');
    const tcp = createConnection((server.address() as { port: number }).port, '127.0.0.1');
    await once(tcp, 'connect');
    const file = openSync('/dev/null', 'r');
    const run = async (third: number | Socket | 'pipe'): Promise<Record<string, unknown>> => {
      const child = spawn(process.execPath, [programPath('orphan.mjs')], {
        stdio: ['ignore', 'pipe', 'inherit', third],
        env: { ...process.env, SIDECALL_FD: '3' },
      });
      const [line] = await once(child.stdout as NodeJS.ReadableStream, 'data');
      await once(child, 'close');
      return JSON.parse(String(line));
    };
    for (const third of [file, tcp, 'pipe'] as const) {
      expect(await run(third)).toMatchObject({ code: 'ERR_SIDECALL_HELPER_FAILED' });
    }
    tcp.destroy();
    server.close();
    closeSync(file);
    await once(server, 'close');
  });
});

const built = JSON.stringify(new URL('../../dist/index.js', import.meta.url).href);

it('a second call of parent() is told where the first one was', async () => {
  using scratch = scratchDirectory();
  writeFileSync(
    scratch.file('helper.mjs'),
    `import { parent, service, unary } from ${built};
    const session = await parent();
    const second = await parent().catch((error) => [error.code, error.message]);
    session.serve(service('Told', { second: unary() }), { second: () => second });`,
  );
  await using helper = await spawnHelper(pathToFileURL(scratch.file('helper.mjs')));
  const Told = service('Told', { second: unary<void, string[]>() });
  const [code, message] = await helper.client(Told).second();
  expect(code).toBe('ERR_SIDECALL_HELPER_FAILED');
  expect(message).toMatch(/parent\(\) was called before, at .*helper\.mjs:2:\d+/);
});

it.each([
  ['own', 'answered'],
  ['shared', 'ERR_SIDECALL_PEER_GONE'],
])('Ctrl-C, with a process group that is %s: the call is %s', async (group, outcome) => {
  using scratch = scratchDirectory();
  writeFileSync(
    scratch.file('helper.mjs'),
    `import { existsSync } from 'node:fs';
    import { parent, service, unary } from ${built};
    const session = await parent();
    session.serve(service('Slow', { wait: unary() }), {
      wait: async (file) => {
        while (file !== '' && !existsSync(file)) await new Promise((done) => setTimeout(done, 5));
      },
    });`,
  );
  writeFileSync(
    scratch.file('main.mjs'),
    `import { writeFileSync } from 'node:fs';
    import { service, spawnHelper, unary } from ${built};
    const helper = await spawnHelper(new URL('helper.mjs', import.meta.url), [], {
      ownProcessGroup: ${group === 'own'},
    });
    const released = ${JSON.stringify(scratch.file('released'))};
    process.on('SIGINT', () => {
      console.log('interrupted');
      writeFileSync(released, '');
    });
    const { wait } = helper.client(service('Slow', { wait: unary() }));
    await wait('');
    const call = wait(released).then(() => 'answered', (error) => error.code);
    console.log('calling');
    console.log(await call);
    await helper.stop();`,
  );
  // A group of its own, as a shell gives to a job; Ctrl-C signals all of it.
  const job = spawn(process.execPath, [scratch.file('main.mjs')], {
    ...{ detached: true, stdio: ['ignore', 'pipe', 'inherit'] },
  });
  const ended = once(job, 'close');
  let printed = '';
  job.stdout.setEncoding('utf8').on('data', (text: string) => {
    if (!printed.includes('calling') && (printed + text).includes('calling')) {
      process.kill(-(job.pid as number), 'SIGINT');
    }
    printed += text;
  });
  expect(await ended).toEqual([0, null]);
  expect(printed).toBe(`calling\ninterrupted\n${outcome}\n`);
});

it.each(['', 'off'])(
  'a process that a helper forks before its parent() is no helper (addon %j)',
  async (native) => {
    using scratch = scratchDirectory();
    writeFileSync(
      scratch.file('helper.mjs'),
      `import { fork } from 'node:child_process';
    import { once } from 'node:events';
    import { parent, service, unary } from ${built};
    const child = fork(new URL('child.mjs', import.meta.url));
    const [refused] = await once(child, 'message');
    child.send('go on');
    const [told] = await once(child, 'message');
    const session = await parent();
    session.serve(service('Told', { all: unary() }), { all: () => [refused, told] });`,
    );
    writeFileSync(
      scratch.file('child.mjs'),
      `import { parent } from ${built};
    const { code, message } = await parent().catch((error) => error);
    process.once('message', (text) => {
      process.send(text); // its own channel
      process.disconnect();
    });
    process.send({ code, message });`,
    );
    const env = { ...process.env, SIDECALL_NATIVE: native };
    const options = { env, lane: native === 'off' ? 'socket' : 'auto' } as const;
    await using helper = await spawnHelper(
      new URL(`file://${scratch.file('helper.mjs')}`),
      [],
      options,
    );
    const told = service('Told', {
      all: unary<void, [{ code: string; message: string }, string]>(),
    });
    const [refused, text] = await helper.client(told).all();
    expect(refused.code).toBe('ERR_SIDECALL_HELPER_FAILED');
    expect(refused.message).toMatch(
      /descriptor 3 comes from process \d+, and not from process \d+/,
    );
    expect(text).toBe('go on');
  },
);
