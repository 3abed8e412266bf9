// Operators with the command line: a service of another user, and one seen from a user namespace.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { root } from './lib.mjs';

const serviceUid = 61_001;
const operatorUid = 61_002;

/** Needs root, which starts programs of other users. */
export async function testOperators({ npm, tarball, check }) {
  const home = mkdtempSync(join(tmpdir(), 'operators-'));
  try {
    chmodSync(home, 0o755); // other users enter it
    writeFileSync(join(home, 'package.json'), '{"private":true}\n');
    cpSync(join(root, 'test', 'consumers', 'operator'), home, { recursive: true });
    npm(['install', '--ignore-scripts', tarball], home);
    const run = join(home, 'run');
    mkdirSync(run, { mode: 0o755 });
    chownSync(run, serviceUid, serviceUid);
    await operate(home, join(run, 'clock'), check);
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
}

async function operate(home, path, check) {
  const args = [join(home, 'service.mjs'), path, String(operatorUid), '0'];
  const service = spawn(process.execPath, args, {
    ...{ uid: serviceUid, gid: serviceUid, cwd: home },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  try {
    await once(service.stdout, 'data');
    const sidecall = [process.execPath, join(home, 'node_modules/sidecall/dist/cli/main.js')];
    const asOperator = [
      'setpriv',
      `--reuid=${operatorUid}`,
      `--regid=${operatorUid}`,
      '--clear-groups',
    ];
    const inNamespace = ['unshare', '--user', '--map-root-user'];
    const names = [`--uid=${serviceUid}`, '--mode=0666'];
    const call = (...rest) => ['call', path, 'Clock.caller', ...rest];
    const cases = [
      ['an operator calls', asOperator, call(...names), `"uid":${operatorUid}`],
      ['an operator lists', asOperator, ['list', path, ...names], 'Clock'],
      ['an operator looks', asOperator, ['doctor', path, ...names], `uid ${serviceUid}`],
      ['an operator who names no user is told', asOperator, call(), `uid ${serviceUid}`, 1],
      ['doctor in a user namespace', inNamespace, ['doctor'], 'All is well'],
      ['a call out of a user namespace is told', inNamespace, call(...names), 'user namespace', 1],
    ];
    for (const [what, prefix, command, says, status = 0] of cases) {
      const [first, ...rest] = [...prefix, ...sidecall, ...command];
      check(what, first, rest, {
        cwd: home,
        env: { HOME: home, XDG_RUNTIME_DIR: '' },
        says,
        status,
      });
    }
  } finally {
    service.kill('SIGKILL');
    await once(service, 'exit');
  }
}
