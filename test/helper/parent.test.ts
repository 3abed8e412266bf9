import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { createConnection, createServer, type Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { programPath, startProgram } from '../support/programs.ts';

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
