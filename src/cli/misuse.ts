// SPDX-License-Identifier: MIT
// The error of wrong usage.

/** Wrong usage of a command: its text goes to standard error with the usage, exit status 2. */
export class Misuse extends Error {}
