// sidecall relay: as a helper, and at a path, with a real language server among the programs.
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { describe, expect, it } from 'vitest';
import type { Message } from 'vscode-jsonrpc';
import { jsonrpcTransport, sidecallCommand } from '../../src/adapters/jsonrpc.ts';
import { type Helper, spawnHelper } from '../../src/helper/spawn-helper.ts';
import { connect } from '../../src/rendezvous/connect.ts';
import type { Session } from '../../src/rpc/session/session.ts';
import { until } from '../support/contract.ts';
import { connectionOver } from '../support/jsonrpc.ts';
import { scratchDirectory } from '../support/programs.ts';

const require = createRequire(import.meta.url);
const command = new URL('../../dist/cli/main.js', import.meta.url);
const limits = { receiveMaxBytes: 64 * 1024 * 1024 };
const jsonServer = require.resolve('vscode-json-languageserver/bin/vscode-json-languageserver');

function relayed(...args: string[]): Promise<Helper> {
  return spawnHelper(command, ['relay', ...args], { limits, stderr: 'pipe' });
}

/** True once it has ended, also where nothing reaps it. */
function hasEnded(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1]?.startsWith('Z') === true;
  } catch {
    return true;
  }
}

function node(source: string): string[] {
  return ['--', process.execPath, '-e', source];
}

/** A language server validates a document. */
async function validates(session: Session): Promise<void> {
  const connection = connectionOver(jsonrpcTransport(session));
  const found = new Promise<{ diagnostics: { message: string }[] }>((done) => {
    connection.onNotification('textDocument/publishDiagnostics', done);
  });
  connection.listen();
  const initialized = await connection.sendRequest<{ capabilities: object }>('initialize', {
    processId: null,
    rootUri: null,
    capabilities: {},
  });
  expect(initialized.capabilities).toHaveProperty('textDocumentSync');
  await connection.sendNotification('initialized', {});
  const textDocument = { uri: 'file:///a.json', languageId: 'json', version: 1, text: '{"a": }' };
  await connection.sendNotification('textDocument/didOpen', { textDocument });
  expect((await found).diagnostics[0]?.message).toBe('Value expected');
  await connection.sendRequest('shutdown');
  await connection.sendNotification('exit');
  connection.dispose();
}

describe('sidecall relay', () => {
  it('names its program for spawnHelper()', () => {
    const path = resolve(import.meta.dirname, '../../src/cli/main.js');
    expect(sidecallCommand.pathname).toBe(path); // beside the sources; in the package, in dist/
  });

  it('runs a language server as a helper, and ends as it ends', async () => {
    const helper = await relayed('--', process.execPath, jsonServer, '--stdio');
    await validates(helper.session);
    expect(await helper.exited).toEqual({ code: 0, signal: null });
  });

  it('hands on the exit code, or the signal', async () => {
    const failed = await relayed(
      ...node('process.stdin.resume().on("end", () => process.exit(5))'),
    );
    jsonrpcTransport(failed.session).writer.end();
    expect(await failed.exited).toEqual({ code: 5, signal: null });
    const killed = await relayed(...node('process.kill(process.pid, "SIGKILL")'));
    jsonrpcTransport(killed.session);
    expect(await killed.exited).toEqual({ code: null, signal: 'SIGKILL' });
  });

  it('ends what is left of a program that has ended, also where it is stopped meanwhile', async () => {
    const stubborn = '(trap "" TERM; while :; do sleep 1; done) & echo "{\\"pid\\":$!}"; exit 3';
    for (const stops of [false, true]) {
      const helper = await relayed('--framing', 'newline', '--', 'sh', '-c', stubborn);
      const { reader } = jsonrpcTransport(helper.session);
      const closed = new Promise<void>((done) => void reader.onClose(done));
      const got = await new Promise<Message>((done) => reader.listen((message) => done(message)));
      await closed;
      if (stops) await helper.stop();
      const { signal } = await helper.exited;
      expect(signal).not.toBe('SIGTERM'); // which ends those that are left, and not the relay
      const { pid } = got as unknown as { pid: number };
      await until(() => hasEnded(pid));
    }
  });

  it('gives the program nothing of the session', async () => {
    const source = `const fs = require('node:fs');
      const fds = fs.readdirSync('/proc/self/fd').filter((fd) => fd > 2).map((fd) => {
        try { return fs.readlinkSync('/proc/self/fd/' + fd); } catch { return ''; }
      });
      const env = Object.keys(process.env).filter((name) => name.startsWith('SIDECALL'));
      console.log(JSON.stringify({ env, sockets: fds.filter((to) => to.startsWith('socket')).length }));
      process.stdin.resume()`;
    const helper = await relayed('--framing', 'newline', ...node(source));
    const { reader, writer } = jsonrpcTransport(helper.session);
    const got = await new Promise<Message>((done) => reader.listen((message) => done(message)));
    expect(got).toEqual({ env: [], sockets: 0 });
    writer.end();
    await helper.stop();
  });

  it('says why a program does not start', async () => {
    const absent = spawnHelper(command, ['relay', '--', 'no-such-program'], { stderr: 'pipe' });
    await expect(absent).rejects.toThrow(
      /exit code 127[\s\S]*'no-such-program' does not start: there is no such program/,
    );
    await expect(spawnHelper(command, ['relay', '--', '/'], { stderr: 'pipe' })).rejects.toThrow(
      /exit code 126[\s\S]*'\/' does not start: spawn \/ EACCES/,
    );
  });

  it('ends the program with the helper', async () => {
    const source = `console.log(JSON.stringify({ pid: process.pid })); setInterval(() => 0, 1000)`;
    const helper = await relayed('--framing', 'newline', ...node(source));
    const { reader } = jsonrpcTransport(helper.session);
    const got = await new Promise<Message>((done) => reader.listen((message) => done(message)));
    await helper.stop();
    const { pid } = got as unknown as { pid: number };
    await until(() => {
      try {
        return !process.kill(pid, 0);
      } catch {
        return true;
      }
    });
  });

  it('gives each process that connects a program of its own', async () => {
    using directory = scratchDirectory();
    const path = directory.file('lsp');
    const args = ['relay', '--listen', path, '--', process.execPath, jsonServer, '--stdio'];
    const listener = execFile(process.execPath, [command.pathname, ...args]);
    const lines = createInterface({ input: listener.stderr as NodeJS.ReadableStream });
    expect((await once(lines, 'line'))[0]).toBe(`sidecall relay: listening at ${path}`);
    const sessions = await Promise.all([connect({ path, limits }), connect({ path, limits })]);
    await Promise.all(sessions.map(validates));
    await Promise.all(sessions.map((session) => session.closed));
    listener.kill('SIGTERM');
    expect(await once(listener, 'exit')).toEqual([0, null]);
  });

  it('serves 64 sessions at a path at a time, refuses more, and takes the next when one ends', async () => {
    using directory = scratchDirectory();
    const path = directory.file('echo');
    const args = ['relay', '--listen', path, '--framing', 'newline', '--', 'cat'];
    const listener = execFile(process.execPath, [command.pathname, ...args]);
    const lines = createInterface({ input: listener.stderr as NodeJS.ReadableStream });
    await once(lines, 'line');
    const open = async () => {
      const session = await connect({ path, limits, timeoutMs: 60_000 });
      const { reader, writer } = jsonrpcTransport(session);
      const echo = async (id: number) => {
        const got = new Promise<Message>((done) => reader.listen((message) => done(message)));
        await writer.write({ jsonrpc: '2.0', id } as Message);
        expect(await got).toEqual({ jsonrpc: '2.0', id });
      };
      return { session, echo };
    };
    // An editor with 64 servers: each answers, while the others are open.
    const opened = await Promise.all(Array.from({ length: 64 }, open));
    await Promise.all(opened.map(({ echo }, id) => echo(id)));
    // A process that wants one more is told; the others lose nothing.
    await expect(connect({ path, limits })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_LIMIT_CONNECTIONS',
      delivered: 'no',
    });
    expect(opened.every(({ session }) => session.state === 'open')).toBe(true);
    await opened[0]?.session.close();
    await until(async () => {
      const next = await connect({ path, limits }).catch(() => undefined);
      await next?.close();
      return next !== undefined;
    });
    await Promise.all(opened.map(({ session }) => session.close()));
    listener.kill('SIGTERM');
    expect(await once(listener, 'exit')).toEqual([0, null]);
  });

  it.each([
    [['relay'], 'relay needs a COMMAND behind --'],
    [['relay', '--', 'true'], 'relay needs --listen PATH, or a process that starts it'],
    [
      ['relay', '--framing', 'lsp', '--', 'true'],
      "--framing must be content-length or newline, got 'lsp'",
    ],
  ])('refuses %j', async (args, text) => {
    const child = execFile(process.execPath, [command.pathname, ...args]);
    let printed = '';
    child.stderr?.on('data', (chunk) => {
      printed += chunk;
    });
    expect(await once(child, 'close')).toEqual([2, null]);
    expect(printed).toContain(text);
  });
});
