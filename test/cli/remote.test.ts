// sidecall list, call, and doctor PATH: against a live listener, a dead socket, and a socket of
// another program.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { resolve } from 'node:path';
import protobufjs from 'protobufjs';
import { describe, expect, it } from 'vitest';
import { protobufService } from '../../src/adapters/protobuf.ts';
import { RpcError } from '../../src/base/errors.ts';
import { listen } from '../../src/rendezvous/listen.ts';
import type { Listener } from '../../src/rendezvous/listener.ts';
import { bytes } from '../../src/rpc/contract/codec.ts';
import {
  clientStream,
  notification,
  serverStream,
  service,
  unary,
} from '../../src/rpc/contract/service.ts';
import { scratchDirectory } from '../support/programs.ts';

const main = resolve(import.meta.dirname, '../../dist/cli/main.js');

interface Outcome {
  readonly stdout: string;
  readonly stderr: string;
  readonly status: number;
}

function sidecall(...args: string[]): Promise<Outcome> {
  return new Promise((done) => {
    execFile(process.execPath, [main, ...args], (error, stdout, stderr) => {
      done({ stdout, stderr, status: error === null ? 0 : Number(error.code) });
    });
  });
}

const Demo = service('Demo', {
  add: unary<{ a: number; b: number }, { sum: number }>(),
  count: serverStream<{ to: number }, number>(),
  log: notification<string>(),
  put: clientStream<string, void>(),
  raw: unary<Uint8Array, Uint8Array>({ request: bytes, response: bytes }),
  fail: unary<void, void>(),
  drop: notification<string>(),
  turn: unary<{ body: Uint8Array }, { body: Uint8Array }>(),
  hang: unary<void, void>(),
});
const { root } = protobufjs.parse(`syntax = "proto3"; package demo;
  message Q { int32 number = 1; } message A { int32 number = 1; string text = 2; }
  service Indexer { rpc AddOne(Q) returns (A); rpc ListAll(Q) returns (stream A); }`);
const Indexer = protobufService(root.lookupService('demo.Indexer'));

async function demo(options: object = {}): Promise<Listener & { logged: string[] }> {
  const listener = await listen(options);
  const logged: string[] = [];
  listener.serve(Demo, {
    add: ({ a, b }) => ({ sum: a + b }),
    async *count({ to }) {
      for (let at = 1; at <= to; at += 1) yield at;
    },
    log: (text) => void logged.push(text),
    put: () => undefined,
    raw: (payload) => payload,
    drop: () => {
      throw new RpcError('not_found', 'no such log');
    },
    turn: ({ body }) => ({ body: body.slice().reverse() }),
    fail: () => {
      throw new RpcError('not_found', 'no such page');
    },
    hang: (_, { signal }) => new Promise((over) => signal.addEventListener('abort', () => over())),
  });
  listener.serve(Indexer, {
    addOne: ({ number }: { number: number }) => ({ number: number + 1, text: 'one' }),
    listAll: ({ number }: { number: number }) => [{ number }, { number: number + 1 }],
  });
  return Object.assign(listener, { logged });
}

describe('sidecall list', () => {
  it('shows what is served', async () => {
    await using listener = await demo();
    const { stdout, stderr, status } = await sidecall('list', listener.path);
    expect({ stderr, status }).toEqual({ stderr: '', status: 0 });
    expect(stdout).toMatch(/^Demo\.add +unary +json → json$/m);
    expect(stdout).toMatch(/^Demo\.log +notification +json$/m);
    expect(stdout).toMatch(/^demo\.Indexer\/ListAll +serverStream +protobuf → protobuf$/m);
    const [first] = JSON.parse((await sidecall('list', listener.path, '--json')).stdout);
    expect(first).toMatchObject({ name: 'Demo' });
  });

  it('is told where a program does not say', async () => {
    await using listener = await demo({ introspection: false });
    const { stderr, status } = await sidecall('list', listener.path);
    expect(status).toBe(1);
    expect(stderr).toContain('unimplemented');
  });
});

describe('sidecall call', () => {
  it('calls a method in JSON, a stream, a notification, and one in protobuf', async () => {
    await using listener = await demo();
    const call = (...args: string[]): Promise<Outcome> => sidecall('call', listener.path, ...args);
    const ok = (stdout: string): Outcome => ({ stdout, stderr: '', status: 0 });
    expect(await call('Demo.add', '{"a":1,"b":2}')).toEqual(ok('{"sum":3}\n'));
    expect(await call('Demo.count', '{"to":3}')).toEqual(ok('1\n2\n3\n'));
    expect(await call('Demo.log', '"a line"')).toEqual(ok(''));
    expect(listener.logged).toEqual(['a line']);
    expect(await call('demo.Indexer/AddOne', '{"number":41}')).toEqual(
      ok('{"number":42,"text":"one"}\n'),
    );
    expect(await call('demo.Indexer/ListAll', '{"number":1}')).toEqual(
      ok('{"number":1}\n{"number":2}\n'),
    );
  });

  it.each([
    [['Demo.fail'], 'not_found: Demo.fail: no such page'],
    [['Demo.nothing'], 'unimplemented: Demo.nothing is not served there'],
    [['Demo.put'], 'takes a stream'],
    [['Demo.raw', '"x"'], "codec 'bytes'"],
    [['Demo.hang', '--timeout', '50'], 'ERR_SIDECALL_DEADLINE_EXCEEDED'],
  ])('%j fails with words and status 1', async (args, words) => {
    await using listener = await demo();
    const { stdout, stderr, status } = await sidecall('call', listener.path, ...args);
    expect({ stdout, status }).toEqual({ stdout: '', status: 1 });
    expect(stderr).toContain(words);
  });
});

describe('sidecall call, used in a script', () => {
  it('fails where the handler of a notification failed', async () => {
    await using listener = await demo();
    const { stdout, stderr, status } = await sidecall('call', listener.path, 'Demo.drop', '"x"');
    expect({ stdout, status }).toEqual({ stdout: '', status: 1 });
    expect(stderr).toContain('no such log');
  });

  it('writes and takes bytes as base64', async () => {
    await using listener = await demo();
    const text = '{"name":"a","body":{"$bytes":"AP8Q"}}';
    const { stdout, stderr } = await sidecall('call', listener.path, 'Demo.turn', text);
    expect({ stdout, stderr }).toEqual({
      stdout: '{"body":{"$bytes":"EP8A"}}\n',
      stderr: '',
    });
    const wrong = await sidecall('call', listener.path, 'Demo.turn', '{"body":{"$bytes":"%"}}');
    expect(wrong.status).toBe(2);
    expect(wrong.stderr).toContain('$bytes must be base64');
  });

  it.each(['', ' ', '1e3', '-1', '0x10'])('refuses --timeout %j', async (given) => {
    await using listener = await demo();
    const args = ['call', listener.path, 'Demo.fail', `--timeout=${given}`];
    const { stderr, status } = await sidecall(...args);
    expect(status).toBe(2);
    expect(stderr).toContain(`--timeout must be a number of milliseconds, got '${given}'`);
  });

  it('ends without words where the reader of its output has seen enough', async () => {
    await using listener = await demo();
    const args = [main, 'call', listener.path, 'Demo.count', '{"to":100000}'];
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    const exited = once(child, 'exit');
    let stderr = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text;
    });
    await once(child.stdout, 'data');
    child.stdout.destroy();
    expect(await exited).toEqual([0, null]);
    expect(stderr).toBe('');
  });
});

describe('sidecall doctor PATH', () => {
  it('says who is alive there, and by which lane', async () => {
    await using listener = await demo();
    const { stdout, status } = await sidecall('doctor', listener.path, '--json');
    expect(status).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      verdict: 'live',
      file: { type: 'socket', mode: '0600', uid: process.geteuid?.() },
      listener: { origin: 'kernel', pid: process.pid, uid: process.geteuid?.() },
      lane: 'ring',
    });
    const words = (await sidecall('doctor', listener.path)).stdout;
    expect(words).toContain(`listener  pid ${process.pid}, uid`);
    expect(words).toMatch(/ping {6}\d/);
  });

  it('tells a dead socket, an empty place, and what is no socket', async () => {
    using scratch = scratchDirectory();
    const dead = scratch.file('dead');
    const script = `require('node:net').createServer().listen(${JSON.stringify(dead)}, () => process.kill(process.pid, 'SIGKILL'))`;
    await new Promise((over) => execFile(process.execPath, ['-e', script], over));
    expect((await sidecall('doctor', dead)).stdout).toContain(`${dead}: dead`);
    const { stdout, status } = await sidecall('doctor', scratch.file('absent'));
    expect(stdout).toContain('absent: nothing is there');
    expect(status).toBe(1);
    writeFileSync(scratch.file('file'), '');
    expect((await sidecall('doctor', scratch.file('file'))).stdout).toContain('file      other');
  });

  it('tells one that is squatted by another program', async () => {
    using scratch = scratchDirectory();
    const path = scratch.file('squatted');
    const squatter = createServer((socket) => {
      socket.on('error', () => undefined).resume();
    });
    await new Promise<void>((listening) => squatter.listen(path, listening));
    const { stdout, status } = await sidecall('doctor', path, '--json');
    squatter.close();
    expect(status).toBe(1);
    // Its file is as Node makes it, or it says no hello: in either case it is none of ours.
    expect(JSON.parse(stdout).verdict).toMatch(/foreign|failed/);
    expect(JSON.parse(stdout).reason).toBeTruthy();
  });
});
