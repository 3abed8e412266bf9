// SPDX-License-Identifier: MIT
// Checks of what a caller passed: misuse throws at once, with Node's codes, naming the option.

import { signalOf } from './brands.ts';
import { didYouMean } from './closest.ts';

/** Misuse has Node's own codes: it is a bug of the caller, not an outcome. */
export function nodeError<E extends Error>(
  Kind: new (message: string) => E,
  code: 'ERR_OUT_OF_RANGE' | 'ERR_INVALID_ARG_TYPE' | 'ERR_INVALID_ARG_VALUE',
  message: string,
): E & { code: string } {
  return Object.assign(new Kind(message), { code });
}

/** Unknown keys throw: `timeoutMS` must not mean "no timeout". */
export function checkKeys<T extends object>(
  what: string,
  options: T,
  known: readonly (keyof T & string)[],
): void {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    const subject = what.endsWith('()') ? `the options of ${what}` : what;
    const got = options === null ? 'null' : Array.isArray(options) ? 'an array' : typeof options;
    const text = `${subject} must be an object, got ${got}; known options are ${known.join(', ')}`;
    throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', text);
  }
  for (const key of Object.keys(options)) {
    if ((known as readonly string[]).includes(key)) continue;
    const meant = didYouMean(key, known);
    const text = `${what}: unknown option '${key}'${meant === '' ? '; ' : `${meant} `}known are ${known.join(', ')}`;
    throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
  }
}

/** The error of `connect('/path')` and `listen('/path')`, which net.connect() would take. */
export function pathAlone(name: string, path: string): TypeError {
  const text = `${name}() takes an object: ${name}({ path: '${path}' })`;
  return nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', text);
}

/** An integer in [min, max], or the default where it is undefined. */
export function checkInteger(
  name: string,
  value: number | undefined,
  { min, max, standard }: { min: number; max: number; standard: number },
): number {
  if (value === undefined) return standard;
  if (typeof value !== 'number') {
    throw nodeError(
      TypeError,
      'ERR_INVALID_ARG_TYPE',
      `${name} must be a number, got ${typeof value}`,
    );
  }
  if (Number.isInteger(value) && value >= min && value <= max) return value;
  const text = `${name} must be an integer from ${min} to ${max}, got ${value}`;
  throw nodeError(RangeError, 'ERR_OUT_OF_RANGE', text);
}

/** True or false, or the default where it is undefined: `'false'` must not mean true. */
export function checkBoolean(name: string, value: boolean | undefined, standard = false): boolean {
  if (value === undefined) return standard;
  if (typeof value === 'boolean') return value;
  const text = `${name} must be true or false, got ${typeof value}`;
  throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', text);
}

/** A function; `undefined` stays. */
export function checkFunction<F>(name: string, value: F | undefined): F | undefined {
  if (value === undefined || typeof value === 'function') return value;
  const text = `${name} must be a function, got ${typeof value}`;
  throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', text);
}

/** An object of any kind; `undefined` stays. */
export function checkObject<T extends object>(name: string, value: T | undefined): T | undefined {
  if (value === undefined || (typeof value === 'object' && value !== null)) return value;
  const got = value === null ? 'null' : typeof value;
  throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', `${name} must be an object, got ${got}`);
}

/** An AbortSignal of any realm, as one of this realm; `undefined` stays. */
export function checkSignal(signal: AbortSignal | undefined): AbortSignal | undefined {
  const own = signalOf(signal);
  if (signal === undefined || own !== undefined) return own;
  throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', 'signal must be an AbortSignal');
}

/** A string without NUL; `undefined` stays. */
export function checkText(name: string, value: string | undefined): string | undefined {
  if (value === undefined) return undefined;
  if (typeof value !== 'string') {
    throw nodeError(
      TypeError,
      'ERR_INVALID_ARG_TYPE',
      `${name} must be a string, got ${typeof value}`,
    );
  }
  if (value === '' || value.includes('\0')) {
    throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', `${name} must not be empty or hold NUL`);
  }
  return value;
}

/** File permission bits: an octal string (`'0770'`), or a number up to 0o7777. */
export function checkMode(name: string, value: number | string): number {
  const isOctal = typeof value === 'string' && /^(0o)?[0-7]{3,5}$/.test(value);
  const mode = isOctal ? Number.parseInt(value.replace('0o', ''), 8) : value;
  if (typeof mode === 'number' && Number.isInteger(mode) && mode >= 0 && mode <= 0o7777)
    return mode;
  const text = `${name} must be an octal string or a number up to 0o7777, got ${String(value)}`;
  throw nodeError(RangeError, 'ERR_OUT_OF_RANGE', text);
}
