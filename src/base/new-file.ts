// SPDX-License-Identifier: MIT
// Files with what may be private: new, of mode 0600, and whole or not there.
import { open, rm } from 'node:fs/promises';
import { ignore } from './ignore-errors.ts';

/**
 * Writes a new file, or none: one that could not be written whole is removed.
 * @throws (as rejection) what the system says, where the file exists or cannot be made.
 */
export async function writeNew(file: string, parts: readonly Uint8Array[]): Promise<void> {
  const handle = await open(file, 'wx', 0o600);
  try {
    for (const part of parts) await handle.writeFile(part);
    await handle.close();
  } catch (error) {
    await handle.close().catch(ignore);
    await rm(file, { force: true });
    throw error;
  }
}
