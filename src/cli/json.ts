// SPDX-License-Identifier: MIT
// JSON of the command line: bytes are written as {"$bytes":"base64"}.

import { Buffer } from 'node:buffer';
import { isBytes } from '../base/brands.ts';

const key = '$bytes';

/** @throws {SyntaxError | TypeError} for what is no JSON, or no base64. */
export function parseJson(text: string): unknown {
  return JSON.parse(text, (_name, value: unknown) => {
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
