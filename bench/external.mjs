// Peers that are programs without Node: in C, compiled on first use, and in Go, built by its
// toolchain from modules of pinned versions. Without a compiler they are skipped, with a reason.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { builtGo, compiled } from './native.mjs';
import { cpuPartsOf } from './processes.mjs';

const goKinds = {
  'golib-uds': 'golib',
  'grpc-go-uds': 'grpc-uds',
  'grpc-go-tcp': 'grpc-tcp',
  'shmipc-go': 'shmipc',
  'shmipc-go-notouch': 'shmipc-notouch',
};
const healthKinds = { 'grpc-go-uds': 'health-uds', 'grpc-go-tcp': 'health-tcp' };

/** True: the peer is a program of its own. */
export function isExternal(peer) {
  return peer.startsWith('c-') || goKinds[peer] !== undefined;
}

/**
 * The row of one cell, or `{ skipped: why }`. `placed`: the numactl words before a command.
 */
export async function runExternal(scenario, peer, cell, placed) {
  if (scenario === 'pingpong') return pingPong(cell, placed);
  if (peer.startsWith('c-')) {
    const { file, why } = compiled('echo');
    if (why !== undefined) return { skipped: why };
    const args = [peer.slice(2), String(cell.size), String(cell.seconds)];
    return { lane: null, ...JSON.parse(await output(file, args)) };
  }
  const { file, why } = builtGo();
  if (why !== undefined) return { skipped: why };
  const kind = scenario === 'health100k' ? healthKinds[peer] : goKinds[peer];
  const args = [kind, String(cell.size), String(cell.inFlight), String(cell.seconds ?? 1)];
  if (cell.requests !== undefined) args.push(String(cell.requests));
  const said = await output(file, args);
  return { lane: null, ...JSON.parse(said), ...(cell.what && { what: cell.what }) };
}

/** The output of a program. */
export function output(command, args, env = {}) {
  return new Promise((done, reject) => {
    const child = spawn(command, args, {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, ...env },
    });
    let said = '';
    child.stdout.on('data', (chunk) => {
      said += chunk;
    });
    child.on('error', reject);
    child.on('close', (code) => {
      if (code !== 0) reject(new Error(`${command} ${args.at(-1)} ended with ${code}`));
      else done(said);
    });
  });
}

async function pingPong(cell, placed) {
  const { file, why } = compiled('pingpong');
  if (why !== undefined) return { skipped: why };
  const scratch = mkdtempSync(join(tmpdir(), 'bench-c-'));
  const rest = [join(scratch, 'socket'), String(cell.size), String(Math.ceil(cell.seconds))];
  const [command, ...before] = [...placed.server, file];
  const server = spawn(command, [...before, 'server', ...rest], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  try {
    await once(createInterface({ input: server.stdout }), 'line');
    const [own, ...args] = [...placed.client, file, 'client', ...rest];
    // The last look before the server ends.
    let served = { user: 0, system: 0 };
    const watch = setInterval(() => {
      const now = cpuPartsOf(server.pid);
      if (now.user + now.system > 0) served = now;
    }, 100);
    const row = JSON.parse(await output(own, args));
    clearInterval(watch);
    return {
      lane: null,
      ...row,
      cpuServerSeconds: served.user + served.system,
      cpuUserSeconds: row.cpuUserSeconds + served.user,
      cpuSystemSeconds: row.cpuSystemSeconds + served.system,
      what: cell.what,
    };
  } finally {
    server.kill();
    rmSync(scratch, { recursive: true, force: true });
  }
}
