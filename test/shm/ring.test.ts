import { expect, it } from 'vitest';
import { requireNative } from '../../src/addon/load-addon.ts';
import { Left, Register, Written } from '../../src/shm/ring.ts';

it('results and registers have the numbers that the addon has', () => {
  const { written, left, register } = requireNative('the test').ringNumbers;
  expect(Written).toEqual(written);
  expect(Left).toEqual(left);
  expect(Register).toEqual(register);
});
