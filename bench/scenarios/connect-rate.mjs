// The cost of connecting: connect, INCR, close, by one client and by twenty, over a Unix socket and
// over TCP. The client is in C; the servers are ours (`listen({ protocol: 'plain' })`, with the
// policy, and a plain `net` server over TCP) and redis, where it is installed. Beside them: our own
// connect() with both policies and the hello, one call, close(); and a connection that is kept.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createConnection, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { output } from '../external.mjs';
import { compiled } from '../native.mjs';
import { cpuPartsOf, holdingsOf, ownCpuParts } from '../processes.mjs';
import { measured } from '../rows.mjs';
import { countedLoad } from './counted.mjs';

const scaled = { 1: 100_000, 20: 25_000 };
const kept = 'kept';

export const connectRate = {
  name: 'connect-rate',
  about: 'connect, INCR, close (1 client × 100,000; 20 × 25,000), and connections that are kept',
  peers: ['sidecall', 'sidecall-plain', 'net-tcp', 'redis-uds', 'redis-tcp'],
  codecs: ['bytes'],
  lanes: ['ring'],
  pairs: [
    ['sidecall-plain', 'net-tcp'],
    ['redis-uds', 'redis-tcp'],
  ],

  cells: ({ seconds, requests }) =>
    [1, 20].flatMap((inFlight) =>
      ['each', kept].map((what) => ({
        codec: 'bytes',
        size: 23,
        inFlight,
        requests: requests ?? (seconds < 0.5 ? 100 : scaled[inFlight]),
        what,
      })),
    ),

  // sidecall opens a whole session in Node: a 20th of the connections, and one client.
  takes: (peer, { inFlight }) => peer !== 'sidecall' || inFlight === 1,

  /** Runs in the runner itself, since no client process of ours opens these servers. */
  async runHere(peer, cell) {
    if (peer === 'sidecall') return sessions(cell);
    const client = compiled('connect');
    if (client.why !== undefined) return { skipped: client.why };
    const server = await servers[peer]();
    if (server.why !== undefined) return { skipped: server.why };
    const { transport, address, cpu, close } = server;
    try {
      const held = server.holdings();
      const before = cpu();
      const args = [transport, String(address), String(cell.inFlight), String(cell.requests)];
      const row = JSON.parse(await output(client.file, [...args, cell.what]));
      const after = cpu();
      const wanted = cell.inFlight * cell.requests;
      return {
        ...cellRow(cell),
        ...row,
        // The counter is exact: no request was lost or made twice.
        errors: row.errors + (row.counter === wanted ? 0 : 1) + (await leftBehind(server, held)),
        ...cpuOfBoth(row, before, after),
        ...(await server.perCommand?.()),
      };
    } finally {
      await close();
    }
  },
};

function cellRow({ codec, size, inFlight, what }) {
  return {
    lane: null,
    codec,
    size,
    inFlight,
    what: what === kept ? 'kept' : 'connect each time',
    bytesPerSecond: 0,
    rssClientBytes: 0,
    rssServerBytes: 0,
    touched: true,
    messageLimitBytes: null,
  };
}

/** CPU time of the client in C, as it printed it, and of the server between two looks. */
function cpuOfBoth(row, before, after) {
  const user = after.user - before.user;
  const system = after.system - before.system;
  return {
    cpuServerSeconds: user + system,
    cpuUserSeconds: row.cpuUserSeconds + user,
    cpuSystemSeconds: row.cpuSystemSeconds + system,
  };
}

function total({ user, system }) {
  return user + system;
}

/** 1 where the server holds more descriptors or shared mappings than before; 0 within a second. */
async function leftBehind({ holdings }, before) {
  for (let wait = 0; wait < 100; wait += 1) {
    const now = holdings();
    if (now.descriptors <= before.descriptors && now.maps <= before.maps) return 0;
    await new Promise((done) => setTimeout(done, 10));
  }
  return 1;
}

/** A counter that speaks RESP in this process, and the time that its handler takes. */
class RespCounter {
  #last = 0;
  #handlerMs = 0;

  /** Answers each request that ends with `foo` with the next number. */
  speak(socket) {
    let text = '';
    socket.on('data', (chunk) => {
      const begun = performance.now();
      text += chunk.toString('latin1');
      for (let at = text.indexOf('foo\r\n'); at >= 0; at = text.indexOf('foo\r\n')) {
        text = text.slice(at + 5);
        this.#last += 1;
        socket.write(`:${this.#last}\r\n`);
      }
      this.#handlerMs += performance.now() - begun;
    });
    socket.on('error', () => undefined);
  }

  perCommand() {
    return {
      serverUsPerCall: Number(((this.#handlerMs * 1000) / this.#last).toFixed(2)),
      serverWhat: 'the handler and its write',
    };
  }
}

const servers = {
  'sidecall-plain': async () => {
    const { listen } = await import('../../dist/index.js');
    const listener = await listen({ protocol: 'plain' });
    const count = new RespCounter();
    void (async () => {
      for await (const socket of listener) count.speak(socket);
    })();
    return {
      transport: 'unix',
      address: listener.path,
      cpu: ownCpuParts,
      holdings: () => holdingsOf('self'),
      perCommand: () => count.perCommand(),
      close: () => listener.close({ deadlineMs: 100 }),
    };
  },

  'net-tcp': async () => {
    const count = new RespCounter();
    const server = createServer({ noDelay: true }, (socket) => count.speak(socket));
    await new Promise((done) => server.listen({ port: 0, host: '127.0.0.1', backlog: 511 }, done));
    return {
      transport: 'tcp',
      address: server.address().port,
      cpu: ownCpuParts,
      holdings: () => holdingsOf('self'),
      perCommand: () => count.perCommand(),
      close: () => new Promise((done) => server.close(done)),
    };
  },

  'redis-uds': () => redis('unix'),
  'redis-tcp': () => redis('tcp'),
};

async function redis(transport) {
  if (spawnSync('redis-server', ['--version']).error) return { why: 'no redis-server' };
  const scratch = mkdtempSync(join(tmpdir(), 'bench-redis-'));
  const path = join(scratch, 'socket');
  const port = transport === 'tcp' ? await freePort() : 0;
  const args = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--dir', scratch];
  if (transport === 'unix') args.push('--unixsocket', path);
  const server = spawn('redis-server', args, { stdio: 'ignore' });
  const address = transport === 'unix' ? path : port;
  await untilConnected(transport === 'unix' ? { path } : { port, host: '127.0.0.1' });
  const where = transport === 'unix' ? { path } : { port, host: '127.0.0.1' };
  return {
    transport,
    address,
    cpu: () => cpuPartsOf(server.pid),
    holdings: () => holdingsOf(server.pid),
    perCommand: async () => ({
      serverUsPerCall: await commandTimeOf(where),
      serverWhat: 'the command',
    }),
    close: async () => {
      server.kill();
      await once(server, 'exit');
      rmSync(scratch, { recursive: true, force: true });
    },
  };
}

/** Microseconds that redis counts for one INCR, without reading and writing. */
async function commandTimeOf(where) {
  const socket = createConnection(where);
  socket.write('INFO commandstats\r\n');
  let text = '';
  for await (const chunk of socket) {
    text += chunk;
    const found = /cmdstat_incr:.*usec_per_call=([\d.]+)/.exec(text);
    if (found !== null) return Number(found[1]);
  }
  return undefined;
}

async function freePort() {
  const server = createServer();
  await new Promise((done) => server.listen({ port: 0, host: '127.0.0.1' }, done));
  const { port } = server.address();
  await new Promise((done) => server.close(done));
  return port;
}

async function untilConnected(where) {
  for (let attempt = 0; attempt < 100; attempt += 1) {
    const socket = createConnection(where);
    const isOpen = await new Promise((done) => {
      socket.once('connect', () => done(true));
      socket.once('error', () => done(false));
    });
    socket.destroy();
    if (isOpen) return;
    await new Promise((done) => setTimeout(done, 50));
  }
  throw new Error('redis-server did not listen within 5 s');
}

/** Times sessions: both policies, hello, rings, one call, close. */
async function sessions(cell) {
  const { connect, listen, service, unary } = await import('../../dist/index.js');
  const Counter = service('Counter', { increment: unary() });
  let count = 0;
  const listener = await listen();
  listener.serve(Counter, {
    increment: () => {
      count += 1;
      return count;
    },
  });
  const { path } = listener;
  const requests = Math.ceil(cell.requests / 20);
  const one = cell.what === kept ? await connect({ path }) : undefined;
  const call = async () => {
    const session = one ?? (await connect({ path }));
    const answer = await session.client(Counter).increment();
    if (one === undefined) await session.close();
    return answer > 0;
  };
  await countedLoad(call, 1, 50);
  const held = holdingsOf('self');
  const peer = {
    cpu: () => ({ client: total(ownCpuParts()), server: 0 }),
    cpuParts: ownCpuParts,
    rss: () => ({ client: 0, server: 0 }),
  };
  const row = await measured(peer, cell, () => countedLoad(call, 1, requests));
  const left = await leftBehind({ holdings: () => holdingsOf('self') }, held);
  await one?.close();
  await listener.close();
  const wrong = count === requests + 50 ? 0 : 1;
  return { ...row, ...cellRow(cell), lane: 'ring', errors: row.errors + wrong + left };
}
