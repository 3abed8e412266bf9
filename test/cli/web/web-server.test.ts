// The server of `sidecall inspect --web`: its link alone is answered, and what it says.
import { once } from 'node:events';
import { request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, expect, it, vi } from 'vitest';
import { inspectFile } from '../../../src/cli/inspect.ts';
import type { ProcessView } from '../../../src/cli/web/watched-process.ts';
import { WebServer } from '../../../src/cli/web/web-server.ts';
import { spawnHelper } from '../../../src/helper/spawn-helper.ts';
import { until } from '../../support/contract.ts';
import {
  programPath,
  type RunningProgram,
  scratchDirectory,
  startProgram,
} from '../../support/programs.ts';

interface Reply {
  readonly status: number;
  readonly body: string;
  readonly headers: Record<string, unknown>;
}

async function ask(
  url: string,
  options: { method?: string; headers?: Record<string, string> } = {},
): Promise<Reply> {
  const reply = await new Promise<import('node:http').IncomingMessage>((resolve, reject) => {
    request(url, { agent: false, ...options }, resolve)
      .once('error', reject)
      .end();
  });
  return { status: reply.statusCode ?? 0, body: await text(reply), headers: reply.headers };
}

async function json<T = Record<string, unknown>>(url: string): Promise<T> {
  const { status, body } = await ask(url);
  expect({ status, body }).toMatchObject({ status: 200 });
  return JSON.parse(body);
}

const times = { intervalMs: 50, timeoutMs: 3_000 };
const none = { pids: [], files: [], ...times };
afterEach(() => vi.unstubAllEnvs());

async function watched(scratch: {
  path: string;
  file: (name: string) => string;
}): Promise<RunningProgram & { pid: number }> {
  vi.stubEnv('XDG_RUNTIME_DIR', scratch.path);
  const env = { SIDECALL_INSPECT: '1', XDG_RUNTIME_DIR: scratch.path };
  const program = startProgram('watched.mjs', [scratch.file('s')], { env });
  await program.next();
  return program;
}

it('answers to its link alone: no other token, name of the machine, site or method', async () => {
  await using server = await WebServer.open(none);
  const { origin, pathname, host, port } = new URL(server.url);
  expect(new URL(server.url).hostname).toBe('127.0.0.1');
  expect(pathname).toMatch(/^\/[\w-]{24}\/$/);
  expect(await json(`${server.url}choices`)).toMatchObject({ isAll: true });

  for (const path of [
    '/',
    '/choices',
    `${pathname.slice(0, -2)}${pathname.at(-2) === 'x' ? 'y' : 'x'}/choices`,
    `/${'a'.repeat(24)}/`,
  ]) {
    const { status, body } = await ask(`${origin}${path}`);
    expect(status).toBe(403);
    expect(body).toContain('Open the link that');
  }
  const choices = `${server.url}choices`;
  const foreign = { host: `evil.example:${port}` };
  expect(await ask(choices, { headers: foreign })).toMatchObject({ status: 403 });
  expect(await ask(choices, { headers: { origin: 'http://evil.example' } })).toMatchObject({
    status: 403,
  });
  expect(await ask(choices, { headers: { origin: `http://${host}` } })).toMatchObject({
    status: 200,
  });
  expect(await ask(choices, { method: 'DELETE' })).toMatchObject({ status: 405 });
  expect(await ask(`${server.url}..%2f..%2fpage.ts`)).toMatchObject({ status: 404 });
  const { headers } = await ask(choices);
  expect(headers['content-security-policy']).toContain("default-src 'none'");
  expect(headers['referrer-policy']).toBe('no-referrer');
  expect(headers['access-control-allow-origin']).toBeUndefined();
  await using other = await WebServer.open(none);
  expect(other.url).not.toBe(server.url);
});

it('survives requests that are none, and ends with connections open', async () => {
  const server = await WebServer.open(none);
  const { port } = new URL(server.url);
  for (const bytes of [
    '\0\0\0\0',
    'GET / HTTP/9.9\r\n\r\n',
    `GET / HTTP/1.1\r\nx: ${'a'.repeat(99_999)}`,
  ]) {
    const socket = connect(Number(port), '127.0.0.1').on('error', () => undefined);
    socket.end(bytes);
    await text(socket).catch(() => undefined);
  }
  const idle = connect(Number(port), '127.0.0.1').on('error', () => undefined);
  await until(() => idle.readyState === 'open');
  expect(await json(`${server.url}choices`)).toMatchObject({ processes: [] });
  await server.close();
  await until(() => idle.destroyed || idle.readableEnded || idle.resume().closed);
});

it('answers beside hundreds of connections of others, which it ends, and keeps those of a page', async () => {
  await using server = await WebServer.open(none);
  const { port, pathname } = new URL(server.url);
  const open = (): Socket => connect(Number(port), '127.0.0.1').on('error', () => undefined);
  // A page: the connections of its browser stay open between its questions.
  const page = Array.from({ length: 12 }, open);
  const asked = async (): Promise<void> => {
    for (const socket of page) {
      socket.write(`GET ${pathname}choices HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`);
      await once(socket, 'data');
    }
  };
  await asked();
  const others: Socket[] = [];
  for (let round = 0; round < 5; round += 1) {
    for (let at = 0; at < 60; at += 1) {
      const other = open();
      if (at % 2 === 0) other.write(`GET / HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`);
      others.push(other);
    }
    await asked();
    expect(await json(`${server.url}choices`)).toMatchObject({ processes: [] });
  }
  const isOpen = (socket: Socket): boolean => !socket.resume().closed;
  await until(() => others.filter(isOpen).length <= 64);
  expect(page.filter(isOpen)).toHaveLength(12);
  for (const socket of [...page, ...others]) socket.destroy();
});

it('shows a process, one session in full, and its calls while they are recorded', async () => {
  using scratch = scratchDirectory();
  await using program = await watched(scratch);
  const { pid } = program;
  await using server = await WebServer.open(none);
  expect(await json(`${server.url}choices`)).toMatchObject({ processes: [{ pid }] });
  const page = `${server.url}process/${pid}`;
  const first = await json<ProcessView>(page);
  expect(first).toMatchObject({ pid, hasEnded: false, recording: { isOn: false, calls: [] } });
  const { rows } = first;
  expect(rows).toHaveLength(6);
  const key = rows.find(({ lane, open }) => lane === 'socket' && open > 0)?.key;
  const view = () => json<ProcessView>(`${page}?key=${key}`);
  expect((await view()).session).toBeUndefined(); // it was not looked at in full yet
  await until(async () => ((await view()).session?.streams.length ?? 0) > 0);
  expect((await view()).session?.streams.map(({ method }) => method)).toContain('Desk.forget');

  expect(await ask(`${page}/recording?on=1`, { method: 'POST' })).toMatchObject({ status: 200 });
  const calls = async (change = 0) =>
    (await json<ProcessView>(`${page}?change=${change}`)).recording.calls;
  const methods = async (): Promise<string[]> => {
    const named = (await calls()).map(({ method, failure = '' }) => `${method} ${failure}`.trim());
    return [...new Set(named)].sort();
  };
  const wanted = ['Desk.add', 'Desk.refuse permission_denied', 'Desk.search'];
  await until(async () => {
    const found = await methods();
    return wanted.every((each) => found.includes(each));
  });
  const seen = await calls();
  const last = Math.max(...seen.map(({ change }) => change));
  for (const { change } of await calls(last)) expect(change).toBeGreaterThan(last);
  const stopped = await ask(`${page}/recording?on=0`, { method: 'POST' });
  expect(JSON.parse(stopped.body)).toEqual({ isOn: false });
  const kept = await calls();
  const numberOf = async () => (await json<ProcessView>(page)).recording.number;
  expect(await numberOf()).toBe(1);
  const exported = await ask(`${page}/calls.jsonl`);
  expect(exported.headers['content-disposition']).toBe(`attachment; filename="calls-${pid}.jsonl"`);
  const lines = exported.body
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(lines.map(({ sequence }) => sequence)).toHaveLength(kept.length);
  expect(exported.body + JSON.stringify(await view())).not.toMatch(/secret/);
  const firsts = new Set(kept.flatMap((each) => (each.endedMs === undefined ? [] : each.key)));
  await ask(`${page}/recording?on=1`, { method: 'POST' });
  await until(async () => (await calls()).length > 0);
  for (const { key: each } of await calls()) expect(firsts.has(each)).toBe(false); // begun anew
  expect(await numberOf()).toBe(2);
  const samples = (await view()).samples;
  const newest = samples.at(-1)?.number as number;
  const after = await json<ProcessView>(`${page}?sample=${newest}`);
  for (const { number } of after.samples) expect(number).toBeGreaterThan(newest);
});

it('says that a process has ended, with what was seen of it, and shows no other process', async () => {
  using scratch = scratchDirectory();
  const program = await watched(scratch);
  const { pid } = program;
  await using server = await WebServer.open({ ...none, pids: [pid] });
  const page = `${server.url}process/${pid}`;
  await json(page);
  await ask(`${page}/recording?on=1`, { method: 'POST' });
  await program[Symbol.asyncDispose]();
  await until(async () => (await json<ProcessView>(page)).hasEnded);
  const view = await json<ProcessView>(page);
  expect(view.problem).toMatch(/ended|no process/);
  expect(view.rows).toHaveLength(6);
  await until(async () => !(await json<ProcessView>(page)).recording.isOn);
  expect(await ask(`${server.url}process/1`)).toMatchObject({ status: 404 });
  expect(await ask(`${server.url}process/x`)).toMatchObject({ status: 404 });
  expect(await ask(`${server.url}process/${pid}/nonsense`)).toMatchObject({ status: 404 });
  expect(await ask(`${server.url}nonsense`, { method: 'POST' })).toMatchObject({ status: 404 });
});

it('looks while a page asks, and no longer', async () => {
  using scratch = scratchDirectory();
  await using program = await watched(scratch);
  await using server = await WebServer.open({ ...none, interestMs: 300 });
  const page = `${server.url}process/${program.pid}`;
  const samples = async () => (await json<ProcessView>(page)).samples;
  await until(async () => (await samples()).length > 5);
  const gaps = async (): Promise<number[]> =>
    (await samples()).map(({ atMs }, at, all) => atMs - (all[at - 1]?.atMs ?? atMs));
  await new Promise((resolve) => setTimeout(resolve, 2_000));
  await until(async () => Math.max(...(await gaps())) > 1_000); // no page asked then
});

it('shows the recording of a helper that was killed, and exports it', async () => {
  using scratch = scratchDirectory();
  await using helper = await spawnHelper(process.execPath, [programPath('recorded.mjs')], {
    recorder: 'frames',
    stdout: 'ignore',
  });
  void helper.session.call('Work.a', -1).catch(() => undefined);
  await helper.session.call('Work.b', -3).catch(() => undefined);
  const file = scratch.file('recording');
  await helper.recording()?.save(file);
  const report = inspectFile(file);
  await using server = await WebServer.open({ ...none, files: [{ name: 'recording', report }] });
  expect(await json(`${server.url}choices`)).toMatchObject({
    processes: [],
    files: [{ name: 'recording' }],
  });
  const shown = await json(`${server.url}file/0`);
  expect(shown).toMatchObject({
    recording: { running: [{ method: 'Work.a' }, { method: 'Work.b' }], faults: [] },
  });
  const lines = (await ask(`${server.url}file/0/recording.jsonl`)).body.trim().split('\n');
  expect(JSON.parse(lines[1] as string)).toMatchObject({ what: 'running', method: 'Work.a' });
  const capture = await ask(`${server.url}file/0/recording.pcapng`);
  expect(capture).toMatchObject({ status: 200 });
  expect(await ask(`${server.url}file/1`)).toMatchObject({ status: 404 });
  expect(await ask(`${server.url}file/0/recording.zip`)).toMatchObject({ status: 404 });
});
