// The leak check around every test: a test fails where it leaves more of our descriptors, handles
// or files than there were before.
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, afterEach, beforeEach, expect } from 'vitest';
import { watchLeaks } from './leaks.ts';

// A temporary directory per process, so that only tests of one file use it.
const scratch = mkdtempSync(join(tmpdir(), 'test-'));
process.env.TMPDIR = scratch;
delete process.env.XDG_RUNTIME_DIR;
chmodSync(scratch, 0o755); // other users have to pass through
afterAll(() => {
  process.env.TMPDIR = dirname(scratch);
  rmSync(scratch, { recursive: true, force: true });
});

// The usual comparison walks through each byte as a property: a mebibyte takes it seven seconds.
expect.addEqualityTesters([
  (one: unknown, other: unknown) =>
    one instanceof Uint8Array && other instanceof Uint8Array
      ? Object.getPrototypeOf(one) === Object.getPrototypeOf(other) &&
        Buffer.compare(one, other) === 0
      : undefined,
]);

let compare: (() => Promise<void>) | undefined;

beforeEach(async () => {
  compare = await watchLeaks();
});

afterEach(async () => {
  await compare?.();
  expect(Object.keys(Object.prototype), 'Object.prototype is untouched').toEqual([]);
});

function onWarning(warning: Error): void {
  // MaxListenersExceeded and deprecations are defects here; experimental notices of Node are not,
  // nor are faults of handlers, which tests cause on purpose.
  const { code = '' } = warning as { code?: string };
  if (warning.name !== 'ExperimentalWarning' && !code.startsWith('SIDECALL_')) throw warning;
}
process.on('warning', onWarning);
afterAll(() => void process.off('warning', onWarning));
