import { expect, it } from 'vitest';
import { requireNative } from '../../src/addon/load-addon.ts';
import { DrainResult, Register, RingResult } from '../../src/shm/ring.ts';

it('results and registers have the numbers that the addon has', () => {
  const { written, left, register } = requireNative('the test').ringNumbers;
  expect(RingResult).toEqual(written);
  expect(DrainResult).toEqual(left);
  expect(Register).toEqual(register);
});
