import { expect, it } from 'vitest';
import { closest, didYouMean } from '../../src/base/closest.ts';

const names = ['timeoutMs', 'signal', 'metadata', 'retry', 'path', 'pathological'];

it.each([
  ['timeoutMS', 'timeoutMs'],
  ['timeout', 'timeoutMs'],
  ['singal', 'signal'],
  ['metdata', 'metadata'],
  ['pth', 'path'],
  ['patj', 'path'],
])('%s means %s', (word, meant) => {
  expect(closest(word, names)).toBe(meant);
  expect(didYouMean(word, names)).toBe(`; did you mean '${meant}'?`);
});

it.each(['', 'x', 'colour', 'timeoutMilliseconds', 'p'.repeat(10_000)])('%s means none', (word) => {
  expect(closest(word, names)).toBeUndefined();
  expect(didYouMean(word, names)).toBe('');
});

it('takes the nearest of several, the first of equally near ones', () => {
  expect(closest('cat', ['cart', 'bat', 'cat'])).toBe('cat');
  expect(closest('cot', ['cat', 'cut'])).toBe('cat');
});
