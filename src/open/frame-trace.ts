// SPDX-License-Identifier: MIT
// `NODE_DEBUG=sidecall`: a line on standard error for each frame and each end, without payload.
import { debuglog } from 'node:util';
import type { Peer } from '../base/peer.ts';
import { frameText } from '../wire/frame-text.ts';
import type { Transport } from '../wire/transport.ts';
import { watched } from '../wire/watched-transport.ts';

const debug = debuglog('sidecall');
/** Transports of this thread that were traced. */
let count = 0;

/** The transport, whose frames are printed where NODE_DEBUG asks for that; else as it is. */
export function traced(transport: Transport, { pid }: Peer): Transport {
  if (!debug.enabled) return transport;
  count += 1;
  const name = `${count}, ${transport.lane} to ${pid ?? 'an unknown pid'}`;
  let isOver = false;
  const say = (did: string): void => {
    if (!isOver) debug(`${name}: ${did}`);
  };
  const end = (why: string): void => {
    say(`ends: ${why}`);
    isOver = true;
  };
  say('begins');
  const { destroy } = transport;
  // Each end of a session destroys its transport.
  transport.destroy = () => {
    end('closed');
    destroy.call(transport);
  };
  return watched(transport, {
    onSent: (header, payloadBytes) => say(`sends ${frameText(header, payloadBytes)}`),
    onArrived: (header, payloadBytes) => say(`takes ${frameText(header, payloadBytes)}`),
    onTakenAhead: (header) => say(`takes ${frameText(header, 0)}, ahead of its turn`),
    onEnd: end,
  });
}
