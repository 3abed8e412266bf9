import { describe, expect, it } from 'vitest';
import { checkInfo } from '../../src/shared/shared-service.ts';

const right = {
  name: 'index',
  key: undefined,
  version: '1.0.0',
  pid: 7,
  uptimeMs: 1,
  clients: 1,
  idleTimeoutMs: 60_000,
};

describe('the words of a shared helper about itself', () => {
  it('are taken where they are right', () => {
    expect(checkInfo(right)).toEqual(right);
  });

  it.each([
    null,
    undefined,
    {},
    { ...right, version: 1 },
    { ...right, version: 'x' },
    { ...right, name: '\u001b[2J' },
    { ...right, key: 5 },
    { ...right, pid: '7' },
    { ...right, clients: -1 },
    { ...right, uptimeMs: Number.NaN },
  ])('are refused: %j', (info) => {
    expect(() => checkInfo(info as never)).toThrow('something else');
  });
});
