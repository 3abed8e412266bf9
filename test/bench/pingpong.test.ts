// The benchmark of the ping-pong and its comparison of transports: rows count what they say, and a
// wrong byte fails the run.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createConnection } from 'node:net';
import { resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readNodes } from '../../bench/placement.mjs';
import { pingpong } from '../../bench/scenarios/pingpong.mjs';
import { scratchDirectory } from '../support/programs.ts';

const bench = resolve(import.meta.dirname, '../../bench');

interface Row {
  readonly peer: string;
  readonly lane: string | null;
  readonly size: number;
  readonly calls: number;
  readonly errors: number;
  readonly windows: readonly number[];
  readonly [figure: string]: unknown;
}

describe('npm run bench -- --scenario pingpong', () => {
  it('counts each window, on both lanes and in C, and says where it ran', () => {
    using scratch = scratchDirectory();
    const json = scratch.file('rows.json');
    const args = ['--scenario', 'pingpong', '--peers', 'sidecall,c-uds', '--windows', '2'];
    const small = ['--seconds', '0.1', '--runs', '1', '--json', json];
    const { status, stdout } = spawnSync(
      process.execPath,
      [`${bench}/run.mjs`, ...args, ...small],
      {
        encoding: 'utf8',
      },
    );
    expect(status).toBe(0);
    expect(stdout).toContain('--numa default, 2 windows');
    const { rows, ...header } = JSON.parse(readFileSync(json, 'utf8')) as { rows: Row[] };
    expect(rows.map(({ peer, lane }) => `${peer} ${lane}`)).toEqual([
      'sidecall ring',
      'sidecall socket',
      'c-uds null',
    ]);
    for (const row of rows) {
      expect(row.errors).toBe(0);
      expect(row.windows).toHaveLength(2);
      expect(row.windows.reduce((all, one) => all + one, 0)).toBe(row.calls);
      for (const figure of [
        'p50Us',
        'p99Us',
        'p999Us',
        'maxUs',
        'cpuUserSeconds',
        'cpuSystemSeconds',
      ]) {
        expect(row[figure], figure).toBeTypeOf('number');
      }
    }
    for (const name of [
      'commit',
      'cpu',
      'cores',
      'kernel',
      'numaNodes',
      'numaBalancing',
      'node',
      'go',
      'args',
    ]) {
      expect(header, name).toHaveProperty(name);
    }
  });

  it('says so where the machine has one node, else places the processes', () => {
    const args = ['--scenario', 'pingpong', '--peers', 'c-uds', '--numa', 'different'];
    const small = ['--seconds', '0.1', '--runs', '1'];
    const ran = spawnSync(process.execPath, [`${bench}/run.mjs`, ...args, ...small], {
      encoding: 'utf8',
    });
    const said = readNodes() < 2 ? 'not available: 1 node' : 'windows';
    expect(`${ran.stdout}${ran.stderr}`).toContain(said);
  });

  it('counts a wrong byte as an error, which fails the run', async () => {
    let received = 0;
    const peer = {
      cpu: () => ({ client: 0, server: 0 }),
      rss: () => ({ client: 0, server: 0 }),
      openPingPong: async (size: number) => ({
        receive: async () => {
          const message = Buffer.alloc(size, received & 0xff);
          received += 1;
          if (received === 1_000) message[size - 1] = (message[size - 1] as number) ^ 1;
          return message;
        },
        send: async () => new Promise((done) => setImmediate(done)),
        close: async () => undefined,
      }),
    };
    const row = await pingpong.run(peer, { size: 64, seconds: 1, what: '' });
    expect(received).toBeGreaterThan(1_000);
    expect(row.errors).toBe(1);
  });
});

describe('the ping-pong in C', () => {
  it('ends with 1 at a wrong byte, and both sides end with 0 at the end', async () => {
    using scratch = scratchDirectory();
    const program = scratch.file('pingpong');
    const built = spawnSync('cc', ['-O2', '-o', program, `${bench}/peers/c/pingpong.c`]);
    expect(built.stderr.toString()).toBe('');
    const serve = async (path: string, seconds = '1') => {
      const server = spawn(program, ['server', path, '64', seconds], {
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      await once(server.stdout, 'data');
      return { server, exited: once(server, 'exit') };
    };
    const wrong = await serve(scratch.file('wrong'));
    const socket = createConnection(scratch.file('wrong'));
    const [first] = (await once(socket, 'data')) as [Buffer];
    first[10] = 0xff;
    socket.on('error', () => undefined).write(first);
    expect((await wrong.exited)[0]).toBe(1);
    socket.destroy();
    // The client's windows count, and the server's may be fewer or more.
    for (const [ofServer, ofClient] of ['1 1', '1 2', '3 1'].map((each) => each.split(' '))) {
      const path = scratch.file(`right-${ofServer}-${ofClient}`);
      const right = await serve(path, ofServer);
      const client = spawn(program, ['client', path, '64', `${ofClient}`], { stdio: 'ignore' });
      expect((await once(client, 'exit'))[0]).toBe(0);
      expect((await right.exited)[0]).toBe(0);
    }
  });
});
