// The work of the pools: a processor computes for about half a millisecond for each thousand
// rounds.
import { pbkdf2Sync } from 'node:crypto';

export default function work({ rounds, text }) {
  return pbkdf2Sync(text, 'salt', rounds, 16, 'sha256').toString('hex');
}
