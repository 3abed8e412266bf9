// SPDX-License-Identifier: MIT
// Method names travel once per session and are numbers after that.
import { isUtf8 } from 'node:buffer';
import { nodeError } from '../errors.ts';
import { protocol } from '../frame.ts';
import { fixed } from '../limits.ts';

/** Names that we have announced. */
export class AnnouncedNames {
  readonly #numbers = new Map<string, number>();

  /** The number, or undefined where the name has to be announced first. */
  numberOf(name: string): number | undefined {
    return this.#numbers.get(name);
  }

  /** @throws {RangeError} `ERR_OUT_OF_RANGE` at the name after the 4,096th. */
  announce(name: string): number {
    const number = this.#numbers.size;
    if (number >= fixed.methodsMax) {
      const words = `a session carries ${fixed.methodsMax} method names at most; '${name}' is one more`;
      throw nodeError(RangeError, 'ERR_OUT_OF_RANGE', words);
    }
    this.#numbers.set(name, number);
    return number;
  }

  get size(): number {
    return this.#numbers.size;
  }
}

/** Names that the peer has announced. */
export class LearntNames {
  readonly #names: string[] = [];

  /** @throws {SidecallError} `PROTOCOL` for a number out of turn, too many, or no proper name. */
  learn(number: number, bytes: Uint8Array): void {
    if (number !== this.#names.length) throw protocol('method number out of turn');
    if (number >= fixed.methodsMax) throw protocol('method name too many');
    const isLength = bytes.byteLength > 0 && bytes.byteLength <= fixed.methodNameMaxBytes;
    if (!isLength || !isUtf8(bytes)) throw protocol('method name that is none');
    this.#names.push(Buffer.from(bytes).toString('utf8'));
  }

  /** @throws {SidecallError} `PROTOCOL` for a number that was never announced. */
  nameOf(number: number): string {
    const name = this.#names[number];
    if (name === undefined) throw protocol('method number that it had not announced');
    return name;
  }
}
