// SPDX-License-Identifier: MIT
// `sidecall gen`: typed contracts from .proto files, over a static module of protobufjs-cli.
import { Buffer } from 'node:buffer';
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, join, resolve } from 'node:path';
import { RpcError } from '../base/errors.ts';
import { Misuse } from './misuse.ts';

/** A `.proto` file and the place of what is made from it. */
export interface GenOptions {
  readonly files: readonly string[];
  /** Directory of the results; undefined: that of each file. */
  readonly out: string | undefined;
  /** Directories in which imports are looked for. */
  readonly paths: readonly string[];
}

/** The files that were made from one `.proto` file. */
export interface Generated {
  readonly proto: string;
  readonly files: readonly string[];
  /** Names of the contracts that can be imported from the last of them. */
  readonly contracts: readonly string[];
}

/** A namespace as `pbjs -t json` writes it. */
interface Namespace {
  readonly nested?: { readonly [name: string]: Namespace };
  readonly methods?: object;
}

interface FoundService {
  readonly name: string;
  /** Full name: `acme.v1.Store`. */
  readonly path: string;
}

/**
 * Makes a module of messages and one of contracts for each file.
 * @throws {Misuse} for a file that is none, {RpcError} `failed_precondition` where protobufjs-cli
 * is not installed, `invalid_argument` with its words where it refuses a file.
 */
export async function generate({ files, out, paths }: GenOptions): Promise<Generated[]> {
  for (const file of files) {
    if (!file.endsWith('.proto')) throw new Misuse(`'${file}' is no .proto file`);
    if (!existsSync(file) || !statSync(file).isFile())
      throw new Misuse(`there is no file '${file}'`);
  }
  const bases = files.map((file) => baseOf(file, out));
  const twice = bases.findIndex((base, at) => bases.indexOf(base) !== at);
  if (twice !== -1) {
    const text = `the results of '${files[twice]}' and of another file have the same names: give each its own --out`;
    throw new Misuse(text);
  }
  const tools = findTools();
  const generated: Generated[] = [];
  for (const file of files) generated.push(await generateOne(tools, file, out, paths));
  return generated;
}

function baseOf(proto: string, out: string | undefined): string {
  return join(resolve(out ?? dirname(proto)), basename(proto, '.proto'));
}

interface Tools {
  readonly pbjs: string;
  readonly pbts: string;
}

function findTools(): Tools {
  const project = createRequire(join(process.cwd(), 'package.json'));
  try {
    const bin = join(dirname(project.resolve('protobufjs-cli/package.json')), 'bin');
    return { pbjs: join(bin, 'pbjs'), pbts: join(bin, 'pbts') };
  } catch (cause) {
    const text =
      'gen needs protobufjs-cli in this project: npm install --save-dev protobufjs-cli, and npm install protobufjs';
    throw new RpcError('failed_precondition', text, { cause });
  }
}

async function generateOne(
  { pbjs, pbts }: Tools,
  proto: string,
  out: string | undefined,
  paths: readonly string[],
): Promise<Generated> {
  const base = baseOf(proto, out);
  const directory = dirname(base);
  mkdirSync(directory, { recursive: true });
  // In a package of CommonJS only a file of this name is a module.
  const [js, dts] = isModulePackage(directory) ? ['.js', '.d.ts'] : ['.mjs', '.d.mts'];
  const messages = `${base}_pb${js}`;
  checkReplaceable(messages);
  const contracts = `${base}_sidecall${js}`;
  const common = paths.flatMap((path) => ['--path', path]);
  const json = JSON.parse(await run(pbjs, ['-t', 'json', ...common, proto])) as Namespace;
  const services = named([...servicesIn(json, [])]);
  if (services.length === 0) {
    throw new RpcError(
      'invalid_argument',
      `${proto} declares no service, so there is no contract to make`,
    );
  }
  // Long keeps all 64 bits; a number would not.
  const statics = ['-t', 'static-module', '-w', 'es6', '--force-long', ...common, '-o', messages];
  await run(pbjs, [...statics, proto]);
  const types = `${base}_pb${dts}`;
  await run(pbts, ['-o', types, messages]);
  const from = `./${basename(messages)}`;
  writeFileSync(contracts, codeOf(basename(proto), from, services, json));
  const contractTypes = `${base}_sidecall${dts}`;
  writeFileSync(contractTypes, typesOf(basename(proto), from, services));
  return {
    proto,
    files: [messages, types, contractTypes, contracts],
    contracts: services.map(({ name }) => name),
  };
}

/**
 * protoc-gen-es gives its files the same names.
 * @throws {RpcError} where the file is there, and was made by another program.
 */
function checkReplaceable(messages: string): void {
  if (!existsSync(messages) || readFileSync(messages, 'utf8').includes('protobufjs')) return;
  const text = `${messages} was made by another program and would be lost: choose another place by --out`;
  throw new RpcError('failed_precondition', text);
}

function isModulePackage(directory: string): boolean {
  for (let at = directory; ; at = dirname(at)) {
    const manifest = join(at, 'package.json');
    if (existsSync(manifest)) {
      return (JSON.parse(readFileSync(manifest, 'utf8')) as { type?: string }).type === 'module';
    }
    if (dirname(at) === at) return false;
  }
}

function* servicesIn(space: Namespace, scope: readonly string[]): Generator<string> {
  for (const [name, nested] of Object.entries(space.nested ?? {})) {
    const path = [...scope, name];
    if (nested.methods === undefined) yield* servicesIn(nested, path);
    else yield path.join('.');
  }
}

/** Names that a module cannot export, or that ours uses itself. */
const taken = /^(protobufService|[a-z]+)$/;

/** The last part of each name; more of it where two services of different packages share that. */
function named(paths: readonly string[]): FoundService[] {
  const lastOf = (path: string): string => {
    const last = path.slice(path.lastIndexOf('.') + 1);
    // Words of the language are all lower case.
    return taken.test(last) ? last.charAt(0).toUpperCase() + last.slice(1) : last;
  };
  return paths.map((path) => {
    const isShared = paths.some((other) => other !== path && lastOf(other) === lastOf(path));
    const parts = path.split('.').map((part) => part.charAt(0).toUpperCase() + part.slice(1));
    return { path, name: isShared ? parts.join('') : lastOf(path) };
  });
}

const generatedFrom = (proto: string): string =>
  `// Made from ${proto} by \`npx sidecall gen\`: change that file instead.\n`;

function codeOf(
  proto: string,
  messages: string,
  services: readonly FoundService[],
  descriptor: Namespace,
): string {
  const contracts = services.map(
    ({ name, path }) =>
      `export const ${name} = protobufService(root.${path}, root, { descriptor });\n`,
  );
  return `${generatedFrom(proto)}import { protobufService } from 'sidecall/protobuf';
import * as root from '${messages}';

export { root };
const descriptor = ${JSON.stringify(descriptor)};
${contracts.join('')}`;
}

function typesOf(proto: string, messages: string, services: readonly FoundService[]): string {
  const contracts = services.map(
    ({ name, path }) =>
      `export const ${name}: Service<StaticMethods<typeof root.${path}, typeof root>>;\n`,
  );
  return `${generatedFrom(proto)}import type { Service } from 'sidecall';
import type { StaticMethods } from 'sidecall/protobuf';
import * as root from '${messages}';

export { root };
${contracts.join('')}`;
}

/** Runs a program of protobufjs-cli. @returns its output. */
function run(program: string, args: readonly string[]): Promise<string> {
  return new Promise((done, reject) => {
    const child = spawn(process.execPath, [program, ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const stdout: Buffer[] = [];
    let stderr = '';
    child.stdout.on('data', (chunk: Buffer) => void stdout.push(chunk));
    child.stderr.on('data', (chunk: Buffer) => {
      stderr += chunk;
    });
    child.on('error', reject);
    child.on('close', (status) => {
      if (status === 0) return done(Buffer.concat(stdout).toString());
      const [, words = stderr.trim().slice(-2_000)] = /^Error: (.*)$/m.exec(stderr) ?? [];
      reject(new RpcError('invalid_argument', `${basename(program)}: ${words}`));
    });
  });
}
