// NODE_DEBUG=sidecall: frames in words on standard error, and nothing else changes.
import { spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';

const dist = JSON.stringify(new URL('../../dist/index.js', import.meta.url).href);
const program = `
  import { connect, listen, service, unary } from ${dist};
  const S = service('S', { same: unary() });
  const listener = await listen();
  listener.serve(S, { same: (value) => value });
  const session = await connect({ path: listener.path, lane: process.argv[1] });
  console.log(await session.client(S).same('a secret word'));
  await session.close();
  await listener.close();
`;

function run(lane: string, debug: string) {
  const args = ['--input-type=module', '-e', program, lane];
  const env = { ...process.env, NODE_DEBUG: debug };
  return spawnSync(process.execPath, args, { encoding: 'utf8', env });
}

describe('NODE_DEBUG', () => {
  it.each(['ring', 'socket'])('=sidecall prints the frames of the %s, without payload', (lane) => {
    const { stdout, stderr, status } = run(lane, 'sidecall');
    expect({ stdout, status }).toEqual({ stdout: 'a secret word\n', status: 0 });
    const line = (what: string): RegExp =>
      new RegExp(`^SIDECALL \\d+: \\d, ${lane} to \\d+: ${what}`, 'm');
    expect(stderr).toMatch(line('begins$'));
    expect(stderr).toMatch(line('sends open 0\\.1 by its opener, unary, 15 bytes, ends, payload'));
    expect(stderr).toMatch(line('takes open 0\\.1 by its opener'));
    expect(stderr).toMatch(line('takes message 0\\.1, 15 bytes, ends, payload 15$'));
    expect(stderr).toMatch(line('sends goaway'));
    expect(stderr.match(/: ends: /g)).toHaveLength(2); // one of each side
    expect(stderr).not.toContain('secret');
  });

  it('of another name prints nothing', () => {
    const { stdout, stderr } = run('ring', 'http');
    expect({ stdout, stderr }).toEqual({ stdout: 'a secret word\n', stderr: '' });
  });
});
