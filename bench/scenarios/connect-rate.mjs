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
      const before = cpu();
      const args = [transport, String(address), String(cell.inFlight), String(cell.requests)];
      const row = JSON.parse(await output(client.file, [...args, cell.what]));
      const wanted = cell.inFlight * cell.requests;
      return {
        ...cellRow(cell),
        ...row,
        // The counter is exact: no request was lost or made twice.
        errors: row.errors + (row.counter === wanted ? 0 : 1),
        cpuServerSeconds: cpu() - before,
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

/** Answers each request that ends with `foo` with the next number. */
function speakResp(socket, count) {
  let text = '';
  socket.on('data', (chunk) => {
    text += chunk.toString('latin1');
    for (let at = text.indexOf('foo\r\n'); at >= 0; at = text.indexOf('foo\r\n')) {
      text = text.slice(at + 5);
      socket.write(`:${count()}\r\n`);
    }
  });
  socket.on('error', () => undefined);
}

function counter() {
  let last = 0;
  return () => {
    last += 1;
    return last;
  };
}

function ownCpu() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}

const servers = {
  'sidecall-plain': async () => {
    const { listen } = await import('../../dist/index.js');
    const listener = await listen({ protocol: 'plain' });
    const count = counter();
    void (async () => {
      for await (const socket of listener) speakResp(socket, count);
    })();
    const close = () => listener.close({ deadlineMs: 100 });
    return { transport: 'unix', address: listener.path, cpu: ownCpu, close };
  },

  'net-tcp': async () => {
    const count = counter();
    const server = createServer({ noDelay: true }, (socket) => speakResp(socket, count));
    await new Promise((done) => server.listen({ port: 0, host: '127.0.0.1', backlog: 511 }, done));
    const close = () => new Promise((done) => server.close(done));
    return { transport: 'tcp', address: server.address().port, cpu: ownCpu, close };
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
  const { cpuOf } = await import('../processes.mjs');
  const where = transport === 'unix' ? { path } : { port, host: '127.0.0.1' };
  return {
    transport,
    address,
    cpu: () => cpuOf(server.pid),
    perCommand: async () => ({ serverUsPerCall: await commandTimeOf(where) }),
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
  const count = counter();
  const listener = await listen();
  listener.serve(Counter, { increment: () => count() });
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
  const peer = {
    cpu: () => ({ client: ownCpu(), server: 0 }),
    rss: () => ({ client: 0, server: 0 }),
  };
  const row = await measured(peer, cell, () => countedLoad(call, 1, requests));
  await one?.close();
  await listener.close();
  const wrong = count() === requests + 51 ? 0 : 1;
  return { ...row, ...cellRow(cell), lane: 'ring', errors: row.errors + wrong };
}
