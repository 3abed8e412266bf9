import { existsSync, readFileSync } from 'node:fs';
import { type Helper, spawnHelper } from '../../src/helper/spawn-helper.ts';
import type { SpawnOptions } from '../../src/helper/spawn-options.ts';
import { bytes } from '../../src/rpc/contract/codec.ts';
import { notification, service, unary } from '../../src/rpc/contract/service.ts';
import { programPath } from './programs.ts';

export const Demo = service('Demo', {
  add: unary<{ a: number; b: number }, { sum: number }>(),
  echo: unary<Uint8Array, Uint8Array>({ request: bytes, response: bytes }),
  whoami: unary<
    void,
    { peer: Record<string, unknown>; pid: number; env: Record<string, string> }
  >(),
  hang: unary<void, void>(),
  block: notification<void>(),
  exit: notification<number>(),
  callBack: unary<{ a: number; b: number }, { sum: number }>(),
});

export function startHelper(options: SpawnOptions = {}, ...args: string[]): Promise<Helper> {
  return spawnHelper(process.execPath, [programPath('helper.mjs'), ...args], {
    startTimeoutMs: 600_000,
    ...options,
  });
}

export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Killed, and not yet reaped by whoever adopted it. */
export function isZombie(pid: number): boolean {
  const status = `/proc/${pid}/status`;
  if (!existsSync(status)) return true;
  try {
    return /^State:\s+Z/m.test(readFileSync(status, 'utf8'));
  } catch {
    return true;
  }
}
