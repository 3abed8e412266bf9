// Newcomers, each in an empty folder with the tarball: other runtimes, TypeScript without a build,
// protobuf with imports, projects with old versions of what the adapters use, a client of language
// servers, an author of an extension.
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './lib.mjs';

/** A folder with the package and others in it, and the files of a kind of consumer. */
function home({ folder, npm, tarball }, name, packages, { hasFiles = true } = {}) {
  const made = join(folder, 'newcomers', name);
  mkdirSync(made, { recursive: true });
  writeFileSync(join(made, 'package.json'), '{"type":"module","private":true}\n');
  if (hasFiles) {
    cpSync(join(root, 'test', 'consumers', name), made, { recursive: true });
  }
  npm(['install', '--ignore-scripts', tarball, ...packages], made);
  return made;
}

/** Bun and Deno, from their npm packages. */
export function testRuntimes(context) {
  const { check } = context;
  const cwd = home(context, 'runtimes', ['bun@1', 'deno@2']);
  const libc =
    process.report.getReport().header.glibcVersionRuntime === undefined ? 'musl' : 'glibc';
  const bun = join(cwd, `node_modules/@oven/bun-linux-${process.arch}/bin/bun`);
  const deno = join(cwd, `node_modules/@deno/linux-${process.arch}-${libc}/deno`);
  const runs = { Bun: [bun], Deno: [deno, 'run', '-A'], Node: [process.execPath] };
  for (const [name, [command, ...args]] of Object.entries(runs)) {
    check(`calls in ${name}`, command, [...args, 'calls.mjs'], { cwd, says: 'over both lanes' });
    const own = { cwd, says: `a helper in ${name}` };
    check(`${name} starts a helper`, command, [...args, 'parent.mjs'], own);
    if (name === 'Node') continue;
    const toNode = [...args, 'parent.mjs', process.execPath];
    check(`${name} starts a helper in Node`, command, toNode, { cwd, says: 'a helper in Node' });
    const started = ['parent.mjs', command, ...args];
    check(`Node starts a helper in ${name}`, process.execPath, started, own);
  }
}

/** TypeScript that is run as it is: by tsx, and by Node itself. */
export function testTypeStripping(context, nodes) {
  const { check } = context;
  const cwd = home(context, 'type-stripping', ['tsx@4']);
  check('TypeScript by tsx', process.execPath, ['node_modules/.bin/tsx', 'main.ts'], {
    cwd,
    says: 'a typed helper: 3',
  });
  for (const [major, node] of nodes.filter(([each]) => each >= 22)) {
    check(`TypeScript by Node ${major}`, node, ['main.ts'], { cwd, says: 'a typed helper: 3' });
  }
}

/** The commands of the protobuf guide, over two files of which one imports the other. */
export function testProtobuf(context) {
  const { check } = context;
  const cwd = home(context, 'protobuf', []);
  const guide = readFileSync(join(root, 'docs', 'guide', 'protobuf.md'), 'utf8');
  const [, block] = /```sh\n([^`]+)```/.exec(guide);
  const commands = block.replaceAll('demo.', 'desk.').trim().split('\n');
  for (const command of commands) {
    const run = command.replace(/^npm install sidecall /, 'npm install ');
    check(`the guide's "${command}"`, 'sh', ['-c', run], { cwd });
  }
  check('protobuf with imports', process.execPath, ['main.mjs'], { cwd, says: 'hello, Ada' });
}

/** The commands of the example of contracts, for each library in a folder of its own. */
export function testProtoContracts(context) {
  const { check } = context;
  const example = join(root, 'examples', 'proto-contracts');
  const readme = readFileSync(join(example, 'README.md'), 'utf8');
  for (const [at, [, block]] of [...readme.matchAll(/```sh\n([^`]+)```/g)].entries()) {
    const commands = block.trim().split('\n');
    const isInstall = (command) => command.startsWith('npm install ');
    const packages = commands
      .filter(isInstall)
      .flatMap((command) => command.split(' ').slice(2))
      .filter((word) => word !== 'sidecall' && !word.startsWith('-'));
    const cwd = home(context, `proto-contracts-${at}`, packages, { hasFiles: false });
    cpSync(example, cwd, { recursive: true });
    const rest = commands.filter((command) => !isInstall(command));
    for (const command of rest) {
      const says = command.startsWith('node ') ? 'apple 9223372036854775807' : undefined;
      check(`contracts: "${command}"`, 'sh', ['-c', command], { cwd, says });
    }
  }
  const cwd = join(context.folder, 'newcomers', 'proto-contracts-0');
  writeFileSync(join(cwd, 'wrong.proto'), 'syntax = "proto3"; messag Wrong {}');
  const gen = 'npx sidecall gen wrong.proto 2>&1; test $? = 1';
  check('gen with a wrong file', 'sh', ['-c', gen], { cwd, says: "illegal token 'messag'" });
  mkdirSync(join(cwd, 'twice'), { recursive: true });
  cpSync(join(cwd, 'proto', 'store.proto'), join(cwd, 'twice', 'store.proto'));
  const twice = 'npx sidecall gen proto/store.proto twice/store.proto --out two 2>&1; test $? = 2';
  check('gen with results of one name', 'sh', ['-c', twice], { cwd, says: 'the same names' });
  writeFileSync(join(cwd, 'twice', 'store_pb.js'), '// of another program');
  const lost = 'npx sidecall gen twice/store.proto 2>&1; test $? = 1';
  check('gen over a file of another program', 'sh', ['-c', lost], { cwd, says: 'would be lost' });
}

/** The adapters beside old versions: the installation succeeds, what is too old is refused. */
export function testOldPackages(context) {
  const { check, npm } = context;
  const old = ['@grpc/grpc-js@1.11.0', 'protobufjs@7.0.0', 'vscode-jsonrpc@8.0.0'];
  const cwd = home(context, 'adapters', old);
  check('adapters beside old versions', process.execPath, ['old.mjs'], { cwd, says: 'work' });
  npm(['install', '--ignore-scripts', '@grpc/grpc-js@1.10.0'], cwd);
  check('an adapter beside one too old', process.execPath, ['too-old.mjs'], { cwd, says: 'words' });
}

/** The author of an extension: the files and commands of the guide, in an empty folder. */
export function testExtensionAuthor(context) {
  const { check } = context;
  const cwd = home(context, 'extension-author', ['log-update'], { hasFiles: false });
  const guide = readFileSync(join(root, 'docs', 'guide', 'write-an-extension.md'), 'utf8');
  const [, install, run] = /```sh\n([^`]+)```[\s\S]*?```sh\n([^`]+)```/.exec(guide);
  const [, ...make] = install.trim().split('\n'); // the first installs, as above
  for (const command of make) check(`the guide's "${command}"`, 'sh', ['-c', command], { cwd });
  const [, manifest] = /```json\n([^`]+)```/.exec(guide);
  const [, module] = /```js\n\/\/ index\.mjs\n([^`]+)```/.exec(guide);
  writeFileSync(join(cwd, 'extensions/words/extension.json'), manifest);
  writeFileSync(join(cwd, 'extensions/words/index.mjs'), module);
  const expected = ['', 'Extension host', '"result": 20'];
  for (const [at, command] of run.trim().split('\n').entries()) {
    check(`an extension: ${command.split(' --').at(-1)}`, 'sh', ['-c', command], {
      ...{ cwd, says: expected[at] },
    });
  }
}

/** The client of VS Code for language servers, whose server is killed three times. */
export function testLanguageClient(context, nodes) {
  const { check } = context;
  const packages = ['vscode-languageclient@11', 'vscode-json-languageserver@1'];
  const cwd = home(context, 'language-client', packages);
  const says = '4 servers, of which none is left; shown: nothing';
  for (const [major, node] of nodes) {
    check(`a language client on Node ${major}`, node, ['main.mjs'], { cwd, says });
  }
}

/** Jest as `npm init` leaves it (CommonJS, and the flag of the guide), vitest, each with a DOM. */
export function testJest(context) {
  const { check } = context;
  const vitest = home(context, 'vitest', ['vitest@4.1', 'jsdom@26']);
  check('vitest with a DOM', 'npx', ['vitest', 'run'], { cwd: vitest });
  const cwd = home(context, 'jest', ['jest@30', 'jest-environment-jsdom@30']);
  writeFileSync(join(cwd, 'package.json'), '{"private":true}\n');
  const jest = ['--experimental-vm-modules', 'node_modules/jest/bin/jest.js', '--ci'];
  check('Jest', process.execPath, jest, { cwd });
}
