// SPDX-License-Identifier: MIT
// The member of a key, by rendezvous hashing: the member with the highest score of key and number.
// A member that goes away moves its own keys only (Thaler and Ravishankar, 1998).

/** FNV-1a of the key, and the finalizer of MurmurHash3 over it and the number of the member. */
export function scoreOf(key: string, member: number): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < key.length; at += 1) {
    hash = Math.imul(hash ^ key.charCodeAt(at), 0x01000193);
  }
  hash ^= Math.imul(member + 1, 0x9e3779b1);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
