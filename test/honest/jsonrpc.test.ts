// JSON-RPC between processes: an answer behind any number of notifications arrives, as it does over
// standard output.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import { createMessageConnection } from 'vscode-jsonrpc/node';
import {
  type JsonRpcTransport,
  jsonrpcTransport,
  stdioTransport,
} from '../../src/adapters/jsonrpc.ts';
import { spawnHelper } from '../../src/helper/spawn-helper.ts';
import { until } from '../support/contract.ts';
import { programPath } from '../support/programs.ts';
import { rounds } from '../support/rounds.ts';

interface Server {
  readonly transport: JsonRpcTransport;
  /** The exit of its process, once it was told to. */
  readonly ended: Promise<unknown>;
}

async function overSession(program: string, lane: 'ring' | 'socket'): Promise<Server> {
  const helper = await spawnHelper(process.execPath, [programPath(program)], { lane });
  const ended = helper.exited.then(async ({ code }) => {
    await helper.close();
    return code;
  });
  return { transport: jsonrpcTransport(helper.session), ended };
}

async function overStdio(): Promise<Server> {
  const child = spawn(process.execPath, [programPath('flooding-server.mjs'), '--stdio'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  return { transport: stdioTransport(child), ended: once(child, 'close').then(([code]) => code) };
}

const servers = [
  { over: 'stdio', start: overStdio },
  { over: 'ring', start: () => overSession('flooding-server.mjs', 'ring') },
  { over: 'socket', start: () => overSession('flooding-server.mjs', 'socket') },
];

/** The first notification finds this process busy for so long. */
const busyMs = 2_000;

/** The answer, and whether all notifications came before it, in their order. */
async function flood({ transport, ended }: Server, count: number, length: number) {
  const connection = createMessageConnection(transport.reader, transport.writer);
  let heard = 0;
  let isOrdered = true;
  connection.onNotification('note', (at: number, text: string) => {
    if (heard === 0) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, busyMs);
    isOrdered &&= at === heard && text.length === length;
    heard += 1;
  });
  connection.listen();
  const answer = await connection.sendRequest('flood', count, length);
  await until(() => heard === count);
  await connection.sendNotification('exit');
  const code = await ended;
  connection.dispose();
  return { answer, heard, isOrdered, code };
}

describe.each(servers)('a server over $over', ({ start }) => {
  it.each([
    { count: rounds(70_000, 25_000), length: 10 },
    { count: 80, length: 1_048_576 },
  ])('F2 answers behind $count notifications of $length characters', async ({ count, length }) => {
    const expected = { answer: 'done', heard: count, isOrdered: true, code: 0 };
    expect(await flood(await start(), count, length)).toEqual(expected);
  });
});

describe.each(['ring', 'socket'] as const)('a plain relay over the %s', (lane) => {
  it('F9 of a language server loses nothing while its host is busy, time and again', async () => {
    for (let time = 0; time < rounds(6, 1); time += 1) {
      const count = rounds(5_000, 1_500);
      const length = 20_000;
      const expected = { answer: 'done', heard: count, isOrdered: true, code: 0 };
      expect(await flood(await overSession('relay.mjs', lane), count, length)).toEqual(expected);
    }
  });
});
