// Every number that users set: its least and largest value are taken, what lies beyond is refused.
import { describe, expect, it } from 'vitest';
import { checkLimits, ranges, sessionRanges } from '../../../src/base/limits/option-limits.ts';
import { checkInteger } from '../../../src/base/misuse.ts';

type Check = (value: unknown) => unknown;

const options: readonly (readonly [string, { min: number; max: number }, Check])[] = [
  ...Object.entries(sessionRanges).map(([name, range]): [string, typeof range, Check] => [
    name,
    range,
    // The largest window, so that the others fit into it whatever they are.
    (value) =>
      checkLimits({ sessionWindowBytes: sessionRanges.sessionWindowBytes.max, [name]: value })[
        name as keyof typeof sessionRanges
      ],
  ]),
  ...Object.entries(ranges).map(([name, range]): [string, typeof range, Check] => [
    name,
    range,
    (value) => checkInteger(name, value as number, range),
  ]),
];

describe('the range of an option', () => {
  it.each(options)('%s', (name, { min, max }, check) => {
    expect(check(max)).toBe(max);
    // A window must have room for two messages: its least value alone is too little.
    if (name === 'sessionWindowBytes') {
      const least = {
        receiveMaxBytes: 1024,
        streamWindowBytes: 16_384,
        sessionWindowBytes: 34_816,
      };
      expect(checkLimits(least).sessionWindowBytes).toBe(34_816);
      expect(() => checkLimits({ ...least, sessionWindowBytes: 34_815 })).toThrow(RangeError);
    } else expect(check(min)).toBe(min);
    for (const value of [min - 1, max + 1, Number.NaN, Number.POSITIVE_INFINITY]) {
      expect(() => check(value), String(value)).toThrow(RangeError);
    }
    if (max - min > 1) expect(() => check(min + 0.5)).toThrow(RangeError);
    for (const value of ['1', null, true, {}, 1n]) {
      expect(() => check(value), String(value)).toThrow(/must be|got/);
    }
    try {
      check(max + 1);
    } catch (error) {
      const { message } = error as Error;
      for (const part of [name, min, max, max + 1]) expect(message).toContain(String(part));
    }
  });

  it('changes nothing of what the caller passed', () => {
    const given = Object.freeze({ receiveMaxBytes: 8 * 1024 * 1024, streamsMax: 5 });
    const checked = checkLimits(given);
    expect(given).toEqual({ receiveMaxBytes: 8 * 1024 * 1024, streamsMax: 5 });
    expect(checked).toMatchObject(given);
    expect(checked).not.toBe(given);
    expect(Object.isFrozen(checked)).toBe(true);
  });
});
