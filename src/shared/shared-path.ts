// SPDX-License-Identifier: MIT
// Where shared helpers meet their users: one socket for each name and key, in the private directory
// of the user.
import { createHash } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { checkText, nodeError } from '../base/misuse.ts';
import { socketPath } from '../uds/private-directory.ts';

const prefix = 'shared-';
const nameForm = /^[A-Za-z0-9_](?:[A-Za-z0-9_-]|\.(?!\.)){0,31}$/;
const keyMaxLetters = 1_024;

/**
 * The path of a shared helper.
 * @throws {TypeError} `ERR_INVALID_ARG_VALUE` for a name or key that is none.
 */
export function sharedPath(name: string, key: string | undefined): string {
  const checked = checkText('name', name) ?? '';
  if (!nameForm.test(checked)) {
    const text = `name must be 1 to 32 letters, digits, '_', '-' and single dots, and begin with a letter, digit or '_', got '${name}'`;
    throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
  }
  if (key === undefined) return socketPath(`${prefix}${checked}`);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: those are the ones
  const isShown = typeof key === 'string' && !/[\u0000-\u001f\u007f-\u009f]/.test(key);
  if (!isShown || key.length === 0 || key.length > keyMaxLetters) {
    const text = `key must be a text of 1 to ${keyMaxLetters} letters without control characters`;
    throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
  }
  // A digest, since a key may be anything: a folder, a project.
  const digest = createHash('sha256').update(key).digest('hex').slice(0, 16);
  return socketPath(`${prefix}${checked}--${digest}`);
}

/** The name of the shared helper of a path of {@link sharedPath}. */
export function nameAt(path: string): string {
  const file = basename(path, '.sock');
  return file.slice(prefix.length).replace(/--[0-9a-f]{16}$/, '');
}

/** Paths of all shared helpers of this user, alive or not. */
export function sharedPaths(): string[] {
  const directory = dirname(socketPath('any'));
  return readdirSync(directory)
    .filter((file) => basename(file).startsWith(prefix) && file.endsWith('.sock'))
    .sort()
    .map((file) => `${directory}/${file}`);
}
