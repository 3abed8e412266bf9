// SPDX-License-Identifier: MIT
// The text of anything that was thrown.

import { isError } from './brands.ts';

/** The text of any value that was thrown. Never throws: such a value may have no primitive form. */
export function errorText(thrown: unknown): string {
  try {
    return isError(thrown) ? String(thrown.message) : String(thrown);
  } catch {
    return `a ${typeof thrown} without words`;
  }
}
