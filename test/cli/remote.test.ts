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
import { protobufService as esService } from '../../src/adapters/protobuf-es.ts';
import { RpcError } from '../../src/base/errors.ts';
import { listen } from '../../src/rendezvous/listen.ts';
import type { Listener } from '../../src/rendezvous/listener.ts';
import { bytes } from '../../src/rpc/contract/codec.ts';
import {
  bidi,
  clientStream,
  notification,
  serverStream,
  service,
  unary,
} from '../../src/rpc/contract/service.ts';
import { collect } from '../support/contract.ts';
import { scratchDirectory } from '../support/programs.ts';
import { demo as demoModule } from '../support/proto/demo.js';
import { Store as StoreDescriptor } from '../support/proto/store_pb.js';

const main = resolve(import.meta.dirname, '../../dist/cli/main.js');

interface Outcome {
  readonly stdout: string;
  readonly stderr: string;
  readonly status: number;
}

function sidecall(...args: string[]): Promise<Outcome> {
  return sidecallWith('', ...args);
}

/** The command with `input` as its standard input. */
function sidecallWith(input: string, ...args: string[]): Promise<Outcome> {
  return new Promise((done) => {
    const child = execFile(process.execPath, [main, ...args], (error, stdout, stderr) => {
      done({ stdout, stderr, status: error === null ? 0 : Number(error.code) });
    });
    child.stdin?.on('error', () => undefined).end(input);
  });
}

const Demo = service('Demo', {
  add: unary<{ a: number; b: number }, { sum: number }>(),
  count: serverStream<{ to: number }, number>(),
  log: notification<string>(),
  put: clientStream<string, { lines: number }>(),
  chat: bidi<string, string>(),
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
    put: async (lines) => ({ lines: (await collect(lines)).length }),
    async *chat(texts) {
      for await (const text of texts) yield text.toUpperCase();
    },
    raw: (payload) => payload,
    drop: () => {
      throw new RpcError('not_found', 'no such log');
    },
    turn: ({ body }) => ({ body: body.slice().reverse() }),
    fail: () => {
      throw new RpcError('not_found', 'no such page', { details: { page: 7 } });
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
  it('calls a contract of protobuf-es, and one of a static module that has a descriptor', async () => {
    await using listener = await listen();
    listener.serve(esService(StoreDescriptor), {
      put: (item) => item,
      async *find() {},
    });
    const descriptor = root.toJSON();
    listener.serve(protobufService(demoModule.Indexer, demoModule, { descriptor }), {
      addOne: ({ number }) => ({ number: number + 1 }),
      async *listAll() {},
      upload: () => ({}),
      async *chat() {},
    });
    const put = await sidecall(
      'call',
      listener.path,
      'acme.v1.Store/Put',
      '{"name":"x","color":1}',
    );
    expect(JSON.parse(put.stdout)).toEqual({ name: 'x', color: 'COLOR_RED' });
    const added = await sidecall('call', listener.path, 'demo.Indexer/AddOne', '{"number":1}');
    expect(JSON.parse(added.stdout)).toMatchObject({ number: 2 });
  });

  it('takes what it prints, and refuses what it would change: ProtoJSON', async () => {
    const { root: all } = protobufjs.parse(`syntax = "proto3"; package all;
      message Time { int64 seconds = 1; }
      enum Color { RED = 0; BLUE = 5; }
      message All { int64 big_id = 1; Color color = 2; bytes raw = 3; double ratio = 4;
        repeated All list = 5; map<string, uint64> counts = 6; }
      service Same { rpc Say(All) returns (All); }`);
    await using listener = await listen();
    listener.serve(protobufService(all.lookupService('all.Same')), { say: (value) => value });
    const call = (text: string): Promise<Outcome> =>
      sidecall('call', listener.path, 'all.Same/Say', text);
    const value = {
      bigId: '9007199254740993',
      color: 'BLUE',
      raw: 'AQI=',
      ratio: 'NaN',
      list: [{ color: 'BLUE' }],
      counts: { a: '18446744073709551615' },
    };
    const said = await call(JSON.stringify(value));
    expect(said).toMatchObject({ stderr: '', status: 0 });
    expect(JSON.parse(said.stdout)).toEqual(value);
    expect(JSON.parse((await call(said.stdout)).stdout)).toEqual(value);
    expect(JSON.parse((await call('{"big_id":5,"color":5}')).stdout)).toEqual({
      bigId: '5',
      color: 'BLUE',
    });
    const refused: readonly (readonly [string, string])[] = [
      ['{"bigid":5}', 'bigid'],
      ['{"list":[{"colour":1}]}', 'colour'],
      ['{"color":"GREEN"}', 'GREEN'],
      ['{"bigId":9007199254740993}', '9007199254740993 would be rounded to 9007199254740992'],
      ['{"counts":{"a":-1}}', '-1'],
      ['{"list":[{"a":1e400}]}', 'beyond what JavaScript holds'],
    ];
    for (const [text, words] of refused) {
      const { status, stderr } = await call(text);
      expect(status, text).not.toBe(0);
      expect(stderr).toContain(words);
    }
  });

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
    [['Demo.ad', '{}'], "did you mean 'Demo.add'?"],
    [['Demo.raw', '"x"'], "codec 'bytes'"],
    [['Demo.hang', '--timeout', '50'], 'sidecall call: deadline_exceeded: '],
    [['Demo.hang', '--timeout', '50'], '(ERR_SIDECALL_DEADLINE_EXCEEDED)'],
  ])('%j fails with words and status 1', async (args, words) => {
    await using listener = await demo();
    const { stdout, stderr, status } = await sidecall('call', listener.path, ...args);
    expect({ stdout, status }).toEqual({ stdout: '', status: 1 });
    expect(stderr).toContain(words);
  });
});

describe('sidecall call, with requests from elsewhere', () => {
  it('reads one from standard input, or from a file', async () => {
    await using listener = await demo();
    using scratch = scratchDirectory();
    writeFileSync(scratch.file('request.json'), '{\n  "a": 20,\n  "b": 3\n}\n');
    const file = `@${scratch.file('request.json')}`;
    const ok = (stdout: string): Outcome => ({ stdout, stderr: '', status: 0 });
    expect(await sidecall('call', listener.path, 'Demo.add', file)).toEqual(ok('{"sum":23}\n'));
    expect(await sidecallWith('{"a":1,\n"b":2}', 'call', listener.path, 'Demo.add', '-')).toEqual(
      ok('{"sum":3}\n'),
    );
  });

  it('sends a stream of them: arguments, the lines of a file, or of standard input', async () => {
    await using listener = await demo();
    using scratch = scratchDirectory();
    writeFileSync(scratch.file('lines'), '"a"\r\n\n"b"\n"c"');
    const ok = (stdout: string): Outcome => ({ stdout, stderr: '', status: 0 });
    const call = (...args: string[]): Promise<Outcome> => sidecall('call', listener.path, ...args);
    expect(await call('Demo.put', '"a"', '"b"')).toEqual(ok('{"lines":2}\n'));
    expect(await call('Demo.put')).toEqual(ok('{"lines":0}\n'));
    expect(await call('Demo.put', `@${scratch.file('lines')}`)).toEqual(ok('{"lines":3}\n'));
    expect(await sidecallWith('"x"\n"y"\n', 'call', listener.path, 'Demo.chat', '-')).toEqual(
      ok('"X"\n"Y"\n'),
    );
  });

  it('answers each line before the next one has come', async () => {
    await using listener = await demo();
    const args = [main, 'call', listener.path, 'Demo.chat', '-'];
    const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    const exited = once(child, 'exit');
    for (const word of ['one', 'two', 'three']) {
      child.stdin.write(`"${word}"\n`);
      expect(String((await once(child.stdout, 'data'))[0])).toBe(`"${word.toUpperCase()}"\n`);
    }
    child.stdin.end();
    expect(await exited).toEqual([0, null]);
  });

  it.each([
    [['Demo.put', '-'], '"a"\nb\n', 'line 2 of standard input is no JSON'],
    [['Demo.add', '-'], '{', 'standard input is no JSON'],
    [['Demo.add', '{}', '{}'], '', 'the method takes one request'],
    [['Demo.add', '-', '{}'], '', "'-' stands alone"],
    [['Demo.add', '@/absent'], '', '/absent cannot be read'],
    [['Demo.put', '@/absent'], '', '/absent cannot be read'],
    [['Demo.add', '{}', '--uid', 'root'], '', "--uid must be the number of a user, got 'root'"],
    [['Demo.add', '{}', '--mode', '8'], '', '--mode must be octal permissions'],
  ])('%j is wrong usage', async (args, input, words) => {
    await using listener = await demo();
    const { stdout, stderr, status } = await sidecallWith(input, 'call', listener.path, ...args);
    expect({ stdout, status }).toEqual({ stdout: '', status: 2 });
    expect(stderr).toContain(words);
  });

  it('keeps the details of an error as JSON', async () => {
    await using listener = await demo();
    const { stderr, status } = await sidecall('call', listener.path, 'Demo.fail', '--json');
    expect(status).toBe(1);
    expect(JSON.parse(stderr)).toEqual({
      error: {
        code: 'ERR_SIDECALL_RPC',
        status: 'not_found',
        message: expect.stringContaining('no such page') as string,
        delivered: 'yes',
        retryable: false,
        details: { page: 7 },
      },
    });
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
    expect(stdout).toContain('absent: there is no file');
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
