// How a slow member is found, and how one that is not slow is left alone.
import { describe, expect, it } from 'vitest';
import { tuning } from '../../src/base/limits/internal-limits.ts';
import { SlowMember, UsualTimes } from '../../src/pool/slow-member.ts';
import { Random } from '../support/random.ts';

describe('a slow member', () => {
  it('is one whose last sixteen answers were all slow; one usual answer ends it', () => {
    const member = new SlowMember();
    for (let count = 0; count < 15; count += 1) member.onAnswer(50 + count, 0);
    expect(member.factor(0)).toBe(1);
    member.onAnswer(60, 0);
    expect(member.factor(0)).toBe(50);
    member.onAnswer(1, 0);
    expect(member.factor(0)).toBe(1);
  });

  it('is tried again after a while, one call at a time', () => {
    const member = new SlowMember();
    for (let count = 0; count < 16; count += 1) member.onAnswer(1_000, 0);
    expect(member.factor(0)).toBe(tuning.slownessMax);
    const later = tuning.slowMemberRetryMs;
    expect(member.factor(later)).toBe(1);
    member.onBegin(later);
    expect(member.factor(later + 1)).toBe(tuning.slownessMax);
    member.onAnswer(1_000, later + 10);
    expect(member.factor(later + 11)).toBe(tuning.slownessMax);
  });

  it('is never found among members that are alike, whatever their calls cost', () => {
    const seeded = new Random(7);
    const random = (): number => seeded.next(1_000_000) / 1_000_000;
    // Costs of honest programs: all alike; one in two a thousand times as long; a long tail.
    const costs = [() => 1, () => (random() < 0.5 ? 1 : 1_000), () => (1 - random()) ** -1.2];
    for (const cost of costs) {
      const usual = new UsualTimes();
      const members = Array.from({ length: 8 }, () => new SlowMember());
      let found = 0;
      for (let call = 0; call < 200_000; call += 1) {
        const member = members[call % 8] as SlowMember;
        const method = call % 3 === 0 ? 'a' : 'b';
        member.onAnswer(usual.ratioOf(method, cost() * (method === 'a' ? 1 : 500)), call);
        if (member.factor(call) > 1) found += 1;
      }
      expect(found / 200_000).toBeLessThan(0.001);
    }
  });

  it('compares answers of one method only, and no more methods than it has room for', () => {
    const usual = new UsualTimes();
    for (let call = 0; call < 32; call += 1) usual.ratioOf('short', 1);
    expect(usual.ratioOf('short', 50)).toBe(50);
    expect(usual.ratioOf('long', 50)).toBe(1); // unknown
    for (let method = 0; method < 2_000; method += 1) usual.ratioOf(`m${method}`, 1);
    for (let call = 0; call < 32; call += 1) usual.ratioOf('m1999', 1);
    expect(usual.ratioOf('m1999', 50)).toBe(1);
  });
});
