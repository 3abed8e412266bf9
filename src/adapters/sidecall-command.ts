// SPDX-License-Identifier: MIT
// The program of `npx sidecall`, for spawnHelper().

/**
 * The program of `npx sidecall` as a module: `spawnHelper(sidecallCommand, ['relay', '--', …])`
 * starts a program that speaks JSON-RPC over its standard input and output. (npx itself does not
 * hand on the descriptor of the session.) In a bundle it names no file: give spawnHelper the URL
 * of a copy of the package there.
 */
export const sidecallCommand = new URL('../cli/main.js', import.meta.url);
