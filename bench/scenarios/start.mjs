// The weight of a start: what an import, a helper and the command cost before they do anything.
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { quantiles } from '../rows.mjs';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../..', import.meta.url));
const modules = {
  sidecall: join(root, 'dist', 'index.js'),
  'grpc-js': '@grpc/grpc-js',
  'child_process-json': 'node:child_process',
};
const firstAnswer = join(root, 'bench', 'peers', 'first-answer.mjs');

/** Processor time of a process of Node that imports a module and ends, in microseconds. */
async function importUs(module) {
  const text = `await import(${JSON.stringify(module)}); const { user, system } = process.cpuUsage(); console.log(user + system);`;
  const args = ['--input-type=module', '-e', text];
  const { stdout } = await run(process.execPath, args, { cwd: join(root, 'bench') });
  return Number(stdout);
}

/** The time until a helper has answered, in microseconds. */
async function answerUs(peer) {
  const how = peer === 'sidecall' ? [] : ['fork'];
  const { stdout } = await run(process.execPath, [firstAnswer, ...how]);
  return Number(stdout) * 1000;
}

/** The time of a whole command, in microseconds. */
async function commandUs(peer) {
  const ours = [join(root, 'dist', 'cli', 'main.js'), '--version'];
  const begun = performance.now();
  await run(process.execPath, peer === 'sidecall' ? ours : ['-e', '0']);
  return (performance.now() - begun) * 1000;
}

/** Measures by what is started. An import counts beside that of a module which Node has loaded. */
const measures = {
  import: async (peer) => (await importUs(modules[peer])) - (await importUs('node:fs')),
  helper: answerUs,
  command: commandUs,
};

export const start = {
  name: 'start',
  about: 'an import (processor time), a helper until its first answer, and a command',
  peers: ['sidecall', 'grpc-js', 'child_process-json'],
  codecs: ['json'],
  lanes: ['ring'],

  cells: ({ seconds }) =>
    Object.keys(measures).map((what) => ({
      codec: 'json',
      size: 0,
      inFlight: 1,
      what,
      times: seconds < 0.5 ? 2 : 15,
    })),

  takes: (peer, { what }) => (peer === 'grpc-js' ? what === 'import' : true),

  async runHere(peer, { times, ...cell }) {
    const latencies = new Float64Array(times);
    for (let at = 0; at < times; at += 1) latencies[at] = await measures[cell.what](peer);
    const found = quantiles(latencies);
    return {
      lane: null,
      ...cell,
      ...found,
      callsPerSecond: 1e6 / found.p50Us,
      bytesPerSecond: 0,
      cpuClientSeconds: 0,
      cpuServerSeconds: 0,
      calls: times,
      errors: latencies.some(Number.isNaN) ? 1 : 0,
    };
  },
};
