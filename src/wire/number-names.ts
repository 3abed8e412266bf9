// SPDX-License-Identifier: MIT
// The names of the numbers in frames and in the records of a flight recorder, for reports.
import { CallKind } from './frame-header.ts';

/** The names of numbers, by number. */
export function namesOf<Name extends string>(
  numbers: Readonly<Record<Name, number>>,
): ReadonlyMap<number, Name> {
  return new Map(Object.entries<number>(numbers).map(([name, number]) => [number, name as Name]));
}

/** The names of the kinds of calls. */
export const callKindNames = namesOf(CallKind);
