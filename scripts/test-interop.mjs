// npm run test:interop: programs of other languages and their tools against this package. Builds
// the Go programs of test/go into build/go and
// installs protoc, then runs test/interop. Needs go, redis-cli and pip.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { fail, root } from './lib.mjs';
import { requireTools } from './suites.mjs';

const usage = `usage: npm run test:interop -- [--help] [files]

Runs programs of other languages against sidecall: grpcurl, grpc-health-probe, the interop client of
grpc-go, Connect's conformance tests, protoc, golib, shmipc-go, redis-cli. Needs go (1.26 or
later), redis-cli and pip.`;

const args = process.argv.slice(2);
if (args.includes('--help')) {
  console.log(usage);
  process.exit(0);
}
requireTools('test:interop');
const programs = [
  'github.com/fullstorydev/grpcurl/cmd/grpcurl',
  'github.com/grpc-ecosystem/grpc-health-probe',
  'google.golang.org/grpc/interop/client',
  './descriptors',
  './golib',
  './grpcjson',
  './shmipc',
];
const target = join(root, 'build', 'go');
mkdirSync(target, { recursive: true });
console.log(`building the Go programs into ${target}`);
run('go', ['build', '-o', `${target}/`, ...programs], { cwd: join(root, 'test', 'go') });
run('go', ['install', 'connectrpc.com/conformance/cmd/connectconformance@v1.0.7'], {
  cwd: target,
  env: { ...process.env, GOBIN: target },
});
const python = join(root, 'build', 'protoc');
if (!existsSync(python)) {
  console.log(`installing grpcio-tools, which has protoc, into ${python}`);
  const quiet = ['--quiet', '--root-user-action=ignore', '--disable-pip-version-check'];
  run('python3', ['-m', 'pip', 'install', ...quiet, '--target', python, 'grpcio-tools']);
}
run('npx', ['vitest', 'run', ...args], {
  cwd: root,
  env: { ...process.env, SIDECALL_SUITE: 'test:interop' },
});

function run(command, commandArgs, options) {
  const { status, error } = spawnSync(command, commandArgs, { stdio: 'inherit', ...options });
  if (error !== undefined) fail(`${command}: ${error.message}`);
  if (status !== 0) process.exit(status ?? 1);
}
