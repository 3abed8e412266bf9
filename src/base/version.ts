// SPDX-License-Identifier: MIT
// The version of the package.

/**
 * Version of this package. In a bundle there is no package.json to read it from; a test compares
 * the two.
 */
export const version = '0.1.0';
