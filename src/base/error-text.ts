// SPDX-License-Identifier: MIT
// The text of anything that was thrown.

/**
 * Anything that was thrown, in words. Never throws itself: a thrown value may have no primitive
 * form.
 */
export function errorText(thrown: unknown): string {
  try {
    return thrown instanceof Error ? String(thrown.message) : String(thrown);
  } catch {
    return `a ${typeof thrown} without words`;
  }
}
