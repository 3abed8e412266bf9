// SPDX-License-Identifier: MIT
// A sum of everything that has happened in a run: equal for two runs that were the same.

/** Two lanes of 32 bits (mixing steps: MurmurHash3 by Austin Appleby). */
export class Fingerprint {
  #a = 0x9e37_79b9;
  #b = 0x85eb_ca6b;

  /** Adds a whole number; its low 53 bits count. */
  add(number: number): void {
    this.#a = mixed(this.#a, number | 0);
    this.#b = mixed(this.#b, Math.floor(number / 2 ** 32) ^ this.#a);
  }

  /** Adds bytes, and their number. */
  addBytes(bytes: Uint8Array): void {
    this.add(bytes.length);
    for (let at = 0; at < bytes.length; at += 1) this.#a = mixed(this.#a, bytes[at] as number);
  }

  toString(): string {
    return [this.#a, this.#b].map((lane) => (lane >>> 0).toString(16).padStart(8, '0')).join('');
  }
}

function mixed(lane: number, number: number): number {
  const scrambled = Math.imul(number, 0xcc9e_2d51);
  const turned = (scrambled << 15) | (scrambled >>> 17);
  const joined = lane ^ Math.imul(turned, 0x1b87_3593);
  return (Math.imul((joined << 13) | (joined >>> 19), 5) + 0xe654_6b64) | 0;
}
