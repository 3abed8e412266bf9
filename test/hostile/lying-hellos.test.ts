// The bits of a hello cannot change as whom a peer is known: the identity is read before the hello.
import { describe, expect, it } from 'vitest';
import { listen } from '../../src/rendezvous/listen.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';
import { scratchDirectory, startProgram } from '../support/programs.ts';

const Demo = service('Demo', { whoami: unary<void, { peer: unknown }>() });
const liar = new URL('attackers/lying_hellos.py', import.meta.url).pathname;

describe('a peer whose hello has any one bit changed', () => {
  it.each([
    ['kernel', { origin: 'kernel', uid: process.geteuid?.(), pidIsHint: false }],
    ['path-permissions', { origin: 'path' }],
  ] as const)(
    'is refused, or known as without it, where identity is %s',
    async (identity, known) => {
      using scratch = scratchDirectory();
      const path = scratch.file('s');
      await using listener = await listen({ path, identity, helloTimeoutMs: 500 });
      listener.serve(Demo, { whoami: (_request, { peer }) => ({ peer }) });
      await using program = startProgram('', [liar, path], { command: 'python3' });
      const { refused, served } = (await program.next()) as { refused: number; served: unknown[] };
      expect(refused).toBeGreaterThan(0);
      expect(served.length).toBeGreaterThan(0);
      expect(refused + served.length).toBe(8 * 64);
      for (const peer of served) expect(peer).toMatchObject(known);
    },
  );
});
