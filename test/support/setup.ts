// Before and after every test: descriptors, handles and files of ours, in this one place. A test that
// leaves one more than it found fails.
import { afterEach, beforeEach, expect } from 'vitest';
import { watchLeaks } from './leaks.ts';

let compare: (() => Promise<void>) | undefined;

beforeEach(async () => {
  compare = await watchLeaks();
});

afterEach(async () => {
  await compare?.();
  expect(Object.keys(Object.prototype), 'Object.prototype is untouched').toEqual([]);
});

process.on('warning', (warning) => {
  // MaxListenersExceeded and deprecations are defects here; experimental notices of Node are not.
  if (warning.name !== 'ExperimentalWarning') throw warning;
});
