// The system calls of listeners and sessions, as strace sees them.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, it } from 'vitest';
import { programPath, requireRoot, scratchDirectory, startProgram } from '../support/programs.ts';

const tracer = 'strace';

interface SystemCall {
  readonly name: string;
  readonly args: string;
  readonly result: number;
}

/** Runs a program until it ends, and gives its last line and the calls it made. */
async function traced(
  calls: string,
  name: string,
  arg: string,
): Promise<{ said: unknown; calls: SystemCall[] }> {
  using scratch = scratchDirectory();
  const trace = scratch.file('trace');
  const strace = ['-f', '-yy', '-o', trace, '-e', `trace=${calls}`];
  const args = [...strace, process.execPath, programPath(name), arg];
  await using program = startProgram('', args, { command: tracer });
  const said = await program.next();
  program.tell('close');
  await program.exited;
  const lines = readFileSync(trace, 'utf8').split('\n');
  const matches = lines.map((line) => /^\d+ +(\w+)\((.*)\) += (-?\d+)/.exec(line));
  return {
    said,
    calls: matches.flatMap((match) =>
      match === null
        ? []
        : [{ name: match[1] as string, args: match[2] as string, result: Number(match[3]) }],
    ),
  };
}

describe('listen()', () => {
  beforeAll(requireRoot);

  it('sets mode, owner and group of the file before the first client can connect', async () => {
    using scratch = scratchDirectory();
    const names =
      'bind,listen,chmod,fchmod,fchmodat,?fchmodat2,chown,fchown,lchown,fchownat,umask,' +
      'rename,renameat,renameat2,link,linkat';
    const options = { path: scratch.file('s'), mode: '0770', owner: 61_001, gid: 61_100 };
    const { calls } = await traced(names, 'listener.mjs', JSON.stringify(options));
    const steps = calls.map(({ name, args, result }) => [
      // A newer kernel changes the mode by the descriptor, an older one by its name in /proc.
      name.replace('fchmodat2', 'chmod'),
      /\b0[0-7]{3}\b|61001, 61100/.exec(args)?.[0],
      result,
    ]);
    // libuv listens again, for queue lengths of its own; the file is final at the first time.
    const listens = ['listen', undefined, 0];
    expect(steps).toEqual([
      ['fchmod', '0600', 0],
      ['bind', undefined, 0],
      ['fchownat', '61001, 61100', 0],
      ['chmod', '0770', 0],
      listens,
      ...steps.slice(5).map(() => listens),
    ]);
  });
});

describe('a session over the ring', () => {
  it('sends its hellos over the socket, then single bytes that wake the peer, and no frame', async () => {
    using scratch = scratchDirectory();
    const names = 'write,writev,sendto,sendmsg';
    const { said, calls } = await traced(names, 'slow-reader.mjs', scratch.file('s'));
    expect(said).toEqual({ lane: 'ring', seen: 2_001, wrong: 0 });
    // Standard output is a socket of this test's own.
    const onSockets = calls.filter(({ args }) => /^(?!1<)\d+<UNIX-STREAM:/.test(args));
    const lengths = onSockets.map(({ result }) => result);
    expect(lengths.slice(0, 4)).toEqual([64, 64, 8, 8]);
    expect(lengths.length).toBeGreaterThan(4);
    // The last one may find that the peer has closed.
    const doorbells = onSockets.slice(4).map(({ args }) => /, ("\\1", 1), /.exec(args)?.[1]);
    expect(new Set(doorbells)).toEqual(new Set(['"\\1", 1']));
  });
});

/** The lines that a module prints in a sandbox that refuses a system call. */
function refusing(call: string, errno: string, source: string): Record<string, unknown>[] {
  const inject = ['-e', `trace=${call}`, '-e', `inject=${call}:error=${errno}`];
  const dist = new URL('../../dist/index.js', import.meta.url);
  const imports = `import { listen, parent, spawnHelper } from '${dist}';
    const say = (value) => console.log(JSON.stringify(value));
    const told = ({ type, error }) => say({ type, code: error.code, message: error.message });`;
  const module = ['--input-type=module', '-e', imports + source];
  const args = ['-f', '-o', '/dev/null', ...inject, process.execPath, ...module];
  const { stdout } = spawnSync(tracer, args, { encoding: 'utf8' });
  return stdout
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line));
}

describe('a sandbox', () => {
  it.each(['EPERM', 'ENOSYS', 'EACCES'])(
    'that refuses prctl (%s) loses the death signal alone',
    (errno) => {
      const helper = `
      if (process.env.SIDECALL_FD === undefined) {
        const args = process.execArgv.concat([]);
        const helper = await spawnHelper(process.execPath, ['--input-type=module', '-e', process.env.SOURCE], {
          env: { ...process.env },
        });
        say({ ping: await helper.session.ping() > 0 });
        await helper.stop();
      }`;
      const source = `const helping = \`import { parent } from '\${new URL('${new URL('../../dist/index.js', import.meta.url)}')}';
      await parent({ onEvent: ({ type, error }) => console.log(JSON.stringify({ type, message: error.message })) });\`;
      process.env.SOURCE = helping; ${helper}`;
      const lines = refusing('prctl', errno, source);
      expect(lines).toEqual([
        { type: 'limited', message: expect.stringContaining('will not kill this helper') },
        { ping: true },
      ]);
    },
  );

  it.each([
    ['flock', 'ENOSYS', 'flock(), which this sandbox or file system refuses'],
    ['flock', 'EPERM', 'flock(), which this sandbox or file system refuses'],
    ['accept4', 'ENOSYS', 'accept4(), which this sandbox refuses'],
    ['accept4', 'EPERM', 'accept4(), which this sandbox refuses'],
    ['fchmod', 'EPERM', 'fchmod: Operation not permitted'],
    ['bind', 'EACCES', 'bind: Permission denied'],
    ['socket', 'EMFILE', 'socket: Too many open files'],
  ])('that refuses %s (%s) is named by the error of listen()', (call, errno, words) => {
    using scratch = scratchDirectory();
    const source = `
      const path = '${scratch.file('s')}';
      await listen({ path }).then(() => say('listens'), ({ code, message }) => say({ code, message }));
      process.exit();`;
    const [said] = refusing(call, errno, source);
    expect(said?.code).toMatch(/^ERR_SIDECALL_/);
    expect(said?.message).toContain(words);
  });
});
