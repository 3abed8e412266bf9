// SPDX-License-Identifier: MIT
// The order of versions, by semver.org 2.0.0: a total order but for build metadata, which is equal.
import { nodeError } from '../base/misuse.ts';

const form =
  /^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?$/;
const maxLetters = 128;

/** @throws {TypeError} `ERR_INVALID_ARG_VALUE` for what is no semantic version. */
export function checkVersion(version: unknown): string {
  if (typeof version === 'string' && isVersion(version)) return version;
  const text = `version must be a semantic version such as 1.4.2 or 2.0.0-rc.1, got '${String(version)}'`;
  throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
}

/** True: a semantic version of bounded length. */
export function isVersion(version: string): boolean {
  return version.length <= maxLetters && form.test(version);
}

/** Below 0: `a` is older than `b`. NOTE: both are versions. */
export function compareVersions(a: string, b: string): number {
  const [, ...left] = form.exec(a) as RegExpExecArray;
  const [, ...right] = form.exec(b) as RegExpExecArray;
  for (let at = 0; at < 3; at += 1) {
    const order = compareNumbers(left[at] as string, right[at] as string);
    if (order !== 0) return order;
  }
  // A version with a pre-release is older than the one without.
  const [before, after] = [left[3], right[3]];
  if (before === undefined || after === undefined) {
    return Number(before === undefined) - Number(after === undefined);
  }
  return comparePreReleases(before.split('.'), after.split('.'));
}

function comparePreReleases(left: readonly string[], right: readonly string[]): number {
  for (let at = 0; at < Math.min(left.length, right.length); at += 1) {
    const order = compareIdentifiers(left[at] as string, right[at] as string);
    if (order !== 0) return order;
  }
  return left.length - right.length;
}

/** Numbers are older than words. */
function compareIdentifiers(a: string, b: string): number {
  const [isNumber, isOtherNumber] = [/^\d+$/.test(a), /^\d+$/.test(b)];
  if (isNumber && isOtherNumber) return compareNumbers(a, b);
  if (isNumber !== isOtherNumber) return isNumber ? -1 : 1;
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

/** Of any length. */
function compareNumbers(a: string, b: string): number {
  const [left, right] = [BigInt(a), BigInt(b)];
  if (left === right) return 0;
  return left < right ? -1 : 1;
}
