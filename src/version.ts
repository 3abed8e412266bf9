// SPDX-License-Identifier: MIT

/** Version of this package. In a bundle there is no package.json to read it from; a test compares the two. */
export const version = '0.1.0';
