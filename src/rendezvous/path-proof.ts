// SPDX-License-Identifier: MIT
// The proof that a process can write to the directory of a socket, so that it could have taken the
// path in any case: a file of a name that the listener chooses.
import { randomBytes } from 'node:crypto';
import type { NativeAddon } from '../addon/addon-api.ts';
import { SidecallError } from '../base/errors.ts';
import { ownUid } from '../uds/peer-credentials.ts';
import { SocketDirectory } from '../uds/socket-directory.ts';

const form = /^\.proof-[0-9a-f]{32}$/;

/** A name that nobody guesses. */
export function proofNameOf(socketName: string): string {
  return `${socketName}.proof-${randomBytes(16).toString('hex')}`;
}

/** True: the file is there, and a user has made it. It is removed. */
export function takeProof(directory: SocketDirectory, name: string, uid: number): boolean {
  const file = directory.stat(name);
  if (file === undefined) return false;
  directory.native.unlinkAt(directory.fd, name);
  return file.type === 'file' && file.uid === uid;
}

/**
 * Makes the file that the listener of a path asks for. Returns how to remove it where the listener
 * did not.
 * @throws {SidecallError} `ERR_SIDECALL_PROTOCOL` for another name, `ERR_SIDECALL_SYSTEM` where the
 * directory cannot be written.
 */
export function makeProof(
  native: NativeAddon,
  path: string,
  name: string,
  unsafeDirectory: boolean,
): () => void {
  const directory = new SocketDirectory(native, path, { owners: [ownUid(), 0], unsafeDirectory });
  const remove = (): void => {
    try {
      if (directory.stat(name) !== undefined) native.unlinkAt(directory.fd, name);
    } catch {
      // The listener has removed it, or the directory has gone.
    }
    directory.close();
  };
  try {
    const own = String(name);
    if (!own.startsWith(directory.name) || !form.test(own.slice(directory.name.length))) {
      throw new SidecallError(
        'ERR_SIDECALL_PROTOCOL',
        'the previous listener asks for another file',
      );
    }
    native.closeDescriptor(native.openLockFile(directory.fd, name));
    return remove;
  } catch (error) {
    directory.close();
    if (SidecallError.is(error)) throw error;
    const text = `listen({ takeOver }) must be able to write to ${directory.path}`;
    throw new SidecallError('ERR_SIDECALL_SYSTEM', text, { cause: error });
  }
}
