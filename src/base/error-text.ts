// SPDX-License-Identifier: MIT
// Parts of the texts of errors.

import { isError } from './brands.ts';

/** The text of any value that was thrown. Never throws: such a value may have no primitive form. */
export function errorText(thrown: unknown): string {
  try {
    return isError(thrown) ? String(thrown.message) : String(thrown);
  } catch {
    return `a ${typeof thrown} without words`;
  }
}

/** The name of a class behind its article. */
export function withArticle(name: string): string {
  return `${/^[AEIO]/.test(name) ? 'an' : 'a'} ${name}`;
}
