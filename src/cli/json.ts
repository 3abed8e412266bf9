// SPDX-License-Identifier: MIT
// JSON of the command line: bytes are written as {"$bytes":"base64"}.

import { Buffer } from 'node:buffer';
import { isBytes } from '../base/brands.ts';

const key = '$bytes';
const texts = /"(?:[^"\\]|\\.)*"/g;
const wholeNumbers = /(?<![\d.eE+-])-?\d{16,400}(?![\d.eE])/g;

/**
 * @throws {SyntaxError | TypeError} for what is no JSON, or no base64. @throws {RangeError} for a
 * whole number that JavaScript would round, or a number that it does not hold.
 */
export function parseJson(text: string): unknown {
  for (const [literal] of text.replaceAll(texts, '""').matchAll(wholeNumbers)) {
    if (BigInt(literal) === BigInt(Number(literal))) continue;
    throw new RangeError(`${literal} would be rounded to ${Number(literal)}: write it as a text`);
  }
  return JSON.parse(text, (_name, value: unknown) => {
    if (value === Number.POSITIVE_INFINITY || value === Number.NEGATIVE_INFINITY) {
      throw new RangeError('a number is beyond what JavaScript holds');
    }
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return value;
    const encoded = (value as Record<string, unknown>)[key];
    const bytes = Buffer.from(typeof encoded === 'string' ? encoded : '', 'base64');
    if (bytes.toString('base64') !== encoded) throw new TypeError(`${key} must be base64`);
    return new Uint8Array(bytes);
  });
}

/** The value as one line of JSON; the empty text for `undefined`. */
export function printJson(value: unknown): string {
  const text = JSON.stringify(value, (_name, member: unknown) => {
    if (!isBytes(member)) return member;
    return { [key]: Buffer.from(member).toString('base64') };
  }) as string | undefined;
  return text ?? '';
}
