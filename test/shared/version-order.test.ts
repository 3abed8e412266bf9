import { describe, expect, it } from 'vitest';
import { compareVersions, isVersion } from '../../src/shared/version-order.ts';

describe('the order of versions', () => {
  it('is that of semver.org, and total', () => {
    const ordered = [
      '0.9.9',
      '1.0.0-1',
      '1.0.0-2',
      '1.0.0-10',
      '1.0.0-alpha',
      '1.0.0-alpha.1',
      '1.0.0-alpha.beta',
      '1.0.0-beta',
      '1.0.0-beta.2',
      '1.0.0-beta.11',
      '1.0.0-rc.1',
      '1.0.0',
      '1.2.0',
      '1.10.0',
      '99999999999999999999.0.0',
    ];
    for (const [at, a] of ordered.entries()) {
      for (const [other, b] of ordered.entries()) {
        expect(Math.sign(compareVersions(a, b)), `${a} ${b}`).toBe(Math.sign(at - other));
      }
    }
    expect(compareVersions('1.0.0+a', '1.0.0+b')).toBe(0);
  });

  it.each(['1', '1.0', 'v1.0.0', '1.0.0-', '1.0.0-01x.', '01.0.0', '', `1.0.0-${'a'.repeat(200)}`])(
    'has no place for %j',
    (text) => {
      expect(isVersion(text)).toBe(false);
    },
  );
});
