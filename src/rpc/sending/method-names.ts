// SPDX-License-Identifier: MIT
// Method names travel once per session and are numbers after that.

import { Buffer, isUtf8 } from 'node:buffer';
import { wireLimits } from '../../base/limits/wire-limits.ts';
import { protocol } from '../../wire/frame-header.ts';

/** Names that we have announced. */
export class AnnouncedNames {
  readonly #numbers = new Map<string, number>();
  #last: string | undefined;
  #lastNumber: number | undefined;

  /** The number, or undefined where the name has to be announced first. */
  numberOf(name: string): number | undefined {
    if (name === this.#last) return this.#lastNumber;
    const number = this.#numbers.get(name);
    if (number === undefined) return undefined;
    this.#last = name;
    this.#lastNumber = number;
    return number;
  }

  /**
   * The number of a new name; undefined behind the 4,096th, which travels with each of its calls
   * instead.
   */
  announce(name: string): number | undefined {
    const number = this.#numbers.size;
    if (number >= wireLimits.methodsMax) return undefined;
    this.#numbers.set(name, number);
    return number;
  }
}

/**
 * A name of `wantedBytes` bytes. @throws {SidecallError} `ERR_SIDECALL_PROTOCOL` for what is no
 * proper name.
 */
export function methodName(bytes: Uint8Array, wantedBytes: number): string {
  const isLength = bytes.length === wantedBytes && wantedBytes <= wireLimits.methodNameMaxBytes;
  if (!isLength || wantedBytes === 0 || !isUtf8(bytes))
    throw protocol('method name that is empty, too long or not UTF-8');
  return Buffer.from(bytes).toString('utf8');
}

/** Names that the peer has announced. */
export class LearntNames {
  readonly #names: string[] = [];

  /**
   * @throws {SidecallError} `ERR_SIDECALL_PROTOCOL` for a number out of turn, too many, or no
   * proper name.
   */
  learn(number: number, bytes: Uint8Array): void {
    if (number !== this.#names.length) throw protocol('method number out of turn');
    if (number >= wireLimits.methodsMax)
      throw protocol('more method names than the protocol allows');
    this.#names.push(methodName(bytes, bytes.length));
  }

  /** undefined: the number was never announced. */
  known(number: number): string | undefined {
    return this.#names[number];
  }

  /** @throws {SidecallError} `ERR_SIDECALL_PROTOCOL` for a number that was never announced. */
  nameOf(number: number): string {
    const name = this.#names[number];
    if (name === undefined) throw protocol('method number that was not announced');
    return name;
  }
}
