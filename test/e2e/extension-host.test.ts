// The example of an extension host: its extensions crash, block, flood and send invalid data.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { until } from '../support/contract.ts';
import {
  bar,
  ExtensionHost,
  failureOf,
  folder,
  type Host,
  home,
  hosting,
  type Row,
  render,
  restart,
  stateOf,
} from '../support/extension-host.ts';
import { scratchDirectory } from '../support/programs.ts';

describe('extensions', () => {
  it('are activated on demand, in a process of their own or in one that they share', () =>
    hosting(async (host, row) => {
      expect(host.rows.every(({ state, pid }) => state === 'idle' && pid === undefined)).toBe(true);
      expect(await host.run('hello.greet', { name: 'you' })).toBe('hello, you');
      expect(row('hello')).toMatchObject({ state: 'active', log: ['hello, you'] });
      expect(row('notes')).toMatchObject({ state: 'idle', pid: row('hello').pid });
      await host.run('indexer.build', undefined, { timeoutMs: 30 }).catch(() => undefined);
      expect(row('indexer').pid).not.toBe(row('hello').pid);
      expect(row('busy').pid).toBeUndefined();
      expect((await failureOf(host.run('no.such'))).message).toContain('no command no.such');
    }));

  it('store, call each other, and show progress', () =>
    hosting(async (host, row) => {
      expect(await host.run('notes.add')).toBe(1);
      expect(await host.run('notes.add')).toBe(2);
      expect(await host.run('notes.greet')).toBe('hello, notes');
      const building = host.run('indexer.build', undefined, { timeoutMs: 60_000 });
      await until(() => (row('indexer').progress[0]?.done ?? 0) > 10);
      expect(row('indexer').progress).toMatchObject([{ title: 'indexing', total: 200 }]);
      expect(await building).toBe(200);
      expect(row('indexer').progress).toEqual([]);
    }));

  it('that compute without end are busy, not dead, and can be killed', () =>
    hosting(async (host, row) => {
      await host.run('busy.compute', { ms: 1 });
      const { pid } = row('busy');
      const computing = failureOf(
        host.run('busy.compute', { ms: 600_000 }, { timeoutMs: 600_000 }),
      );
      await until(() => stateOf(row('busy')) === 'busy');
      expect(row('busy')).toMatchObject({ state: 'active', loop: 'busy', pid });
      expect(await host.run('hello.greet')).toBe('hello, world');
      host.kill('busy');
      expect((await computing).code).toBe('ERR_SIDECALL_PEER_GONE');
      expect(await host.run('busy.compute', { ms: 1 })).toBeGreaterThan(0);
      expect(row('busy').pid).not.toBe(pid);
      expect(row('busy').restarts).toBe(1);
    }));

  it('that crash are started again, and disabled when they go on; the others notice nothing', () =>
    hosting(async (host, row) => {
      await host.run('hello.greet');
      const { pid } = row('hello');
      for (let crash = 0; crash < 3; crash += 1) {
        const failure = await failureOf(host.run('crasher.crash'));
        expect(failure.code).toBe('ERR_SIDECALL_PEER_GONE');
        await until(() => row('crasher').state !== 'active');
        expect(row('crasher').restarts).toBeLessThanOrEqual(2);
      }
      await until(() => row('crasher').state === 'disabled');
      expect(row('crasher').why).toContain('crash loop');
      expect((await failureOf(host.run('crasher.crash'))).message).toContain('disabled');
      host.enable('crasher');
      expect((await failureOf(host.run('crasher.crash'))).code).toBe('ERR_SIDECALL_PEER_GONE');
      expect(row('hello')).toMatchObject({ state: 'active', pid, restarts: 0 });
    }));

  it('that flood are slowed down, may keep so much, and hold nobody up', () =>
    hosting(async (host, row) => {
      expect(await host.run('flood.start')).toBe('flooding');
      for (let at = 0; at < 20; at += 1) expect(await host.run('hello.greet')).toBe('hello, world');
      await until(() => row('flood').logged > 200 || row('flood').state !== 'active');
      expect(row('flood').log.length).toBeLessThanOrEqual(50);
      expect(row('flood').stored).toBeLessThanOrEqual(64 * 1024);
      expect(row('flood').stored).toBeGreaterThan(0);
      expect(row('flood').progress.length).toBeLessThanOrEqual(8);
    }));

  it('that never answer are given up on, and cancelled', () =>
    hosting(async (host, row) => {
      for (const command of ['hang.wait', 'hang.deaf']) {
        const failure = await failureOf(host.run(command, undefined, { timeoutMs: 50 }));
        expect(failure.code).toBe('ERR_SIDECALL_DEADLINE_EXCEEDED');
      }
      await until(() => row('hang').loop === 'turning');
      expect(row('hang').state).toBe('active');
    }));

  it('that write garbage lose their session, and nobody else anything', () =>
    hosting(async (host, row) => {
      await host.run('hello.greet');
      await failureOf(host.run('liar.garbage'));
      await until(() => row('liar').restarts === 1);
      expect(await host.run('hello.greet')).toBe('hello, world');
      expect(row('hello').restarts).toBe(0);
    }));

  it('that want more than they may get it refused, and do not write to the screen', () =>
    hosting(async (host, row) => {
      const failure = await failureOf(host.run('liar.greedy'));
      expect(failure.message).toContain('call your own functions');
      expect(row('liar').log.join()).toContain('may store 65536 bytes');
      expect(row('liar').stored).toBe(0);
      const screen: string = render(host.rows, { color: false });
      expect(screen).not.toContain('\u001b');
    }));

  it('may speak for themselves only', async () => {
    const { HostServices } = await import(join(home, 'services.mjs'));
    const services = new HostServices(() => undefined);
    services.add('mine');
    services.add('other');
    const handlers = services.handlers((name: string) => name === 'mine');
    handlers.write({ name: 'mine', key: 'a', value: 1 });
    for (const name of ['other', 'nobody', '__proto__', undefined, 7]) {
      expect(() => handlers.write({ name, key: 'a', value: 1 })).toThrow(
        'not an extension of this',
      );
    }
    expect(() => handlers.progress({ name: 'mine', id: 1, done: 'x', total: 1 })).toThrow(
      'figures',
    );
  });

  it('that fail to activate, or never finish it, fail their command and can be tried again', async () => {
    using scratch = scratchDirectory();
    cpSync(join(folder, 'hello'), scratch.file('hello'), { recursive: true });
    const broken = { throws: 'throw new Error("no luck")', waits: 'await new Promise(() => {})' };
    for (const [name, body] of Object.entries(broken)) {
      mkdirSync(scratch.file(name));
      const manifest = { main: 'index.mjs', commands: [`${name}.x`] };
      writeFileSync(scratch.file(`${name}/extension.json`), JSON.stringify(manifest));
      writeFileSync(
        scratch.file(`${name}/index.mjs`),
        `export async function activate() { ${body} }`,
      );
    }
    const throwing = async (host: Host, row: (name: string) => Row): Promise<void> => {
      for (let round = 0; round < 2; round += 1) {
        expect((await failureOf(host.run('throws.x'))).message).toContain('no luck');
      }
      expect(row('throws')).toMatchObject({ state: 'failed' });
      expect(await host.run('hello.greet')).toBe('hello, world');
    };
    await hosting(throwing, {}, scratch.path);
    const waiting = async (host: Host): Promise<void> => {
      for (let round = 0; round < 2; round += 1) {
        expect((await failureOf(host.run('waits.x'))).code).toBe('ERR_SIDECALL_DEADLINE_EXCEEDED');
      }
    };
    await hosting(waiting, { activateTimeoutMs: 100 }, scratch.path);
  });
});

describe('the host', () => {
  it('shows extensions that it cannot read, and those that claim what is not theirs, as failed', async () => {
    using scratch = scratchDirectory();
    cpSync(join(folder, 'hello'), scratch.file('hello'), { recursive: true });
    writeFileSync(scratch.file('stray.txt'), 'no folder');
    const manifests: Record<string, string> = {
      broken: '{',
      nothing: 'null',
      listless: '{ "main": "x.mjs", "commands": "a" }',
      thief: '{ "main": "x.mjs", "commands": ["hello.greet"] }',
      empty: '{}',
    };
    for (const [name, text] of Object.entries(manifests)) {
      mkdirSync(scratch.file(name));
      writeFileSync(scratch.file(`${name}/extension.json`), text);
    }
    await hosting(
      async (host, row) => {
        expect(await host.run('hello.greet')).toBe('hello, world');
        for (const name of Object.keys(manifests)) {
          expect(row(name)).toMatchObject({ state: 'failed', pid: undefined });
          expect(row(name).why).toBeTruthy();
        }
        expect(host.rows).toHaveLength(6);
      },
      {},
      scratch.path,
    );
  });

  it('that is closed starts nothing more, and what was starting is gone', async () => {
    const host = new ExtensionHost(folder, { restart });
    const starting = failureOf(host.run('hello.greet'));
    await host.close();
    await starting;
    expect((await failureOf(host.run('notes.add'))).message).toContain('the host is closed');
    const isRunner = (pid: string): boolean => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('runner.mjs');
      } catch {
        return false; // gone meanwhile
      }
    };
    const children = (): string[] =>
      readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8').trim().split(' ');
    await until(() => !children().some(isRunner));
  });

  it('ends a command with the extension that asked for it, and lets none call in circles', async () => {
    using scratch = scratchDirectory();
    for (const [name, other] of [
      ['ping', 'pong'],
      ['pong', 'ping'],
    ] as const) {
      mkdirSync(scratch.file(name));
      const manifest = {
        main: 'index.mjs',
        commands: [`${name}.go`, `${name}.wait`, `${name}.ask`],
      };
      writeFileSync(scratch.file(`${name}/extension.json`), JSON.stringify(manifest));
      const code = `export function activate({ commands, log }) {
        commands.register('${name}.go', () => commands.execute('${other}.go'));
        commands.register('${name}.ask', () => commands.execute('${other}.wait'));
        commands.register('${name}.wait', (_args, { signal }) => new Promise((resolve) =>
          signal.addEventListener('abort', () => { log('told'); resolve(); })));
      }`;
      writeFileSync(scratch.file(`${name}/index.mjs`), code);
    }
    const run = async (host: Host, row: (name: string) => Row): Promise<void> => {
      expect((await failureOf(host.run('ping.go'))).message).toContain('4 deep');
      const aborter = new AbortController();
      const asked = failureOf(host.run('ping.ask', undefined, { signal: aborter.signal }));
      await until(() => row('pong').running === 1);
      aborter.abort();
      await asked;
      await until(() => row('pong').log.includes('told'));
      expect(row('pong').running).toBe(0);
    };
    await hosting(run, {}, scratch.path);
  });

  it('keeps no more of a long text than it shows', async () => {
    const { HostServices } = await import(join(home, 'services.mjs'));
    const services = new HostServices(() => undefined);
    services.add('mine');
    const handlers = services.handlers(() => true);
    globalThis.gc?.();
    const before = process.memoryUsage().heapUsed;
    for (let at = 0; at < 50; at += 1) {
      await handlers.log({ name: 'mine', text: String(at).repeat(1_000_000) });
    }
    globalThis.gc?.();
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(10_000_000);
  });

  it('ends with all of its processes, however busy', async () => {
    const host = new ExtensionHost(folder, { restart, livenessEveryMs: 50 });
    await host.run('busy.compute', { ms: 1 });
    void host.run('busy.compute', { ms: 600_000 }).catch(() => undefined);
    await host.run('hello.greet');
    const pids = host.rows.flatMap(({ pid }) => (pid === undefined ? [] : [pid]));
    await host.close();
    for (const pid of pids) expect(() => process.kill(pid, 0)).toThrow('ESRCH');
  });

  it('is a program with a screen, or with JSON', async () => {
    const run = (...args: string[]): string =>
      execFileSync(process.execPath, [join(home, 'main.mjs'), ...args], { encoding: 'utf8' });
    expect(run('--help')).toContain('--seconds N');
    const said = JSON.parse(run('--json', '--run', 'hello.greet,notes.add'));
    expect(said.results).toEqual([
      { command: 'hello.greet', state: 'done', result: 'hello, world' },
      { command: 'notes.add', state: 'done', result: 1 },
    ]);
    const rows: Row[] = said.extensions;
    expect(rows.find(({ name }) => name === 'hello')).toMatchObject({ state: 'active' });
    const args = [join(home, 'main.mjs'), '--seconds', '600', '--run', 'notes.add'];
    const program = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    let screen = '';
    program.stdout.setEncoding('utf8').on('data', (text) => {
      screen += text;
      const isShown = /notes +shared \d+ +active +0 +ring +1 notes/.test(screen);
      if (isShown && screen.includes('notes.add: 1')) program.kill('SIGTERM');
    });
    expect(await once(program, 'close')).toEqual([0, null]);
    expect(screen).toContain('Extension host');
  });

  it('shows each state in a word', () => {
    const row = {
      ...{ name: 'x', process: 'x', pid: 5, state: 'active', loop: 'busy', busyForMs: 2_340 },
      ...{ restarts: 1, lane: 'ring', log: [], progress: [], why: undefined },
    };
    expect(render([row], { color: false })).toContain('busy 2.3 s');
    expect(stateOf({ ...row, loop: 'turning' })).toBe('active');
    expect(stateOf({ ...row, state: 'disabled' })).toBe('disabled');
    expect(bar(1, 2, 4)).toBe('██░░ 50 %');
    expect(bar(-1, 0, 4)).toBe('░░░░ 0 %');
    expect(render([{ ...row, log: ['a\u202eb\u2028c'] }], { color: false })).toContain('a b c');
    expect(render([{ ...row, log: ['\u001b[2Jgone'] }], { color: false })).not.toContain('\u001b');
  });
});
