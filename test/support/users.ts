import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { SidecallEvent } from '../../src/base/events.ts';
import { type ListenOptions, listen } from '../../src/rendezvous/listen.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';
import { startProgram } from './programs.ts';

// Ordinary uids; they need no entry in the user database.
export const alice = 61_001;

export const bob = 61_002;

export const owner = 0;

export const Whoami = service('Demo', { whoami: unary<void, { peer: unknown }>() });

/** A directory that all users may enter and only its owner may change. */
export function openDirectory(): Disposable & { file: (name: string) => string; path: string } {
  const path = mkdtempSync(join(tmpdir(), 'scratch-'));
  chmodSync(path, 0o755);
  return {
    path,
    file: (name) => join(path, name),
    [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }),
  };
}

export async function listening(
  options: ListenOptions,
): Promise<AsyncDisposable & { path: string; events: SidecallEvent[]; served: () => number }> {
  const events: SidecallEvent[] = [];
  let served = 0;
  const listener = await listen({ ...options, onEvent: (event) => events.push(event) });
  listener.serve(Whoami, {
    whoami: (_request, { peer }) => {
      served += 1;
      return { peer };
    },
  });
  return {
    path: listener.path,
    events,
    served: () => served,
    [Symbol.asyncDispose]: () => listener.close(),
  };
}

export async function call(
  path: string,
  options: object,
  ...ids: (number | string)[]
): Promise<Record<string, unknown>> {
  await using program = startProgram('caller.mjs', [
    path,
    JSON.stringify(options),
    ...ids.map(String),
  ]);
  return await program.next();
}
