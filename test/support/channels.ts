// Channels of messages and byte streams over every lane.

import type { SessionDuplex } from '../../src/rpc/channels/duplex.ts';
import type { Session } from '../../src/rpc/session/session.ts';
import type { Pair } from './pairs.ts';

export async function openDuplex(
  pair: Pair,
  [near, far]: [Session, Session] = [pair.near, pair.far],
  allowHalfOpen = false,
): Promise<[SessionDuplex, SessionDuplex]> {
  const accepted = far.duplexes({ name: 'raw', allowHalfOpen });
  const ours = near.openDuplex({ name: 'raw', allowHalfOpen });
  const { value } = await accepted.next();
  await accepted.return?.();
  return [ours, value as SessionDuplex];
}
