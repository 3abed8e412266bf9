// Every option of every public function: a value of another type, or beyond any range, is refused
// at once, by a `TypeError` or `RangeError` that names the option.
import { readdirSync, readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Options, type Target, targets } from '../support/every-option.ts';
import { watchLeaks } from '../support/leaks.ts';

const wrongNumbers = ['1', null, true, {}, 1n, Number.NaN, -1, 0.5, 2 ** 53, Symbol('wrong')];

/** The error of a call with these options; closes what it opened. */
async function failureOf(
  call: Target['call'],
  options: Options,
  subject: unknown,
): Promise<unknown> {
  let opened: unknown;
  try {
    opened = await call(options, subject as never);
  } catch (error) {
    return error;
  }
  await (opened as { close?: () => unknown } | undefined)?.close?.();
  return undefined;
}

describe.each(Object.entries(targets))('%s', (_name, given) => {
  const { call, open, numbers, others, takesMore } = given;
  let subject: AsyncDisposable | undefined;
  let isGone: (() => Promise<void>) | undefined;
  beforeAll(async () => {
    isGone = await watchLeaks();
    subject = await open?.();
  });
  afterAll(async () => {
    await subject?.[Symbol.asyncDispose]();
    await isGone?.();
  });
  const cases: [string, readonly unknown[]][] = [
    ...numbers.map((option): [string, readonly unknown[]] => [option, wrongNumbers]),
    ...others.map((option): [string, readonly unknown[]] => [option, [Symbol('wrong')]]),
  ];
  it.each(cases)('refuses a wrong %s', async (option, values) => {
    for (const value of values) {
      const error = await failureOf(call, { [option]: value }, subject);
      const seen = `${option}: ${String(value)} of type ${typeof value}`;
      expect(error instanceof TypeError || error instanceof RangeError, `${seen}: ${error}`).toBe(
        true,
      );
      expect((error as NodeJS.ErrnoException).code, seen).toMatch(
        /^ERR_(INVALID_ARG|OUT_OF_RANGE)/,
      );
      expect((error as Error).message, seen).toContain(option);
    }
  });

  const unknown = takesMore === true ? [] : [{ unheardOf: 1 }];
  it.each(unknown)('refuses an option that it does not know, and changes no object', async () => {
    const unheard = Object.freeze({ unheardOf: 1 });
    const error = (await failureOf(call, unheard, subject)) as NodeJS.ErrnoException;
    expect(error, String(error)).toBeInstanceOf(TypeError);
    expect(error.message).toContain('unheardOf');
    expect(unheard).toEqual({ unheardOf: 1 });
  });
});

/** Options that are no option of a function above, with the reason. */
const elsewhere: Record<string, string> = {
  details: 'any JSON value',
  retryable: 'of an error: nothing depends on its type',
  delivered: 'of an error: nothing depends on its type',
};

describe('the table above', () => {
  it('has every option of the package', () => {
    const known = new Set(
      Object.values(targets).flatMap(({ numbers, others }) => [...numbers, ...others]),
    );
    const missing: string[] = [];
    for (const file of readdirSync('src', { recursive: true, encoding: 'utf8' })) {
      if (!file.endsWith('.ts')) continue;
      const text = readFileSync(`src/${file}`, 'utf8').replaceAll(/\/\*.*?\*\//gs, '');
      for (const [, name, body = ''] of text.matchAll(
        /export interface (\w*Options)\b[^{]*\{(.*?)\n\}/gs,
      )) {
        for (const [, option = ''] of body.matchAll(/^ {2}readonly (\w+)\?/gm)) {
          if (!known.has(option) && elsewhere[option] === undefined)
            missing.push(`${name}.${option}`);
        }
      }
    }
    expect(missing).toEqual([]);
  });
});
