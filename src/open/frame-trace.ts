// SPDX-License-Identifier: MIT
// `NODE_DEBUG=sidecall`: a line on standard error for each frame and each end, without payload.
import { debuglog } from 'node:util';
import type { Peer } from '../base/peer.ts';
import { frameText } from '../wire/frame-text.ts';
import type { Transport } from '../wire/transport.ts';
import { watched } from '../wire/watched-transport.ts';

const debug = debuglog('sidecall');

/** The transport, whose frames are printed where NODE_DEBUG asks for that; else as it is. */
export function traced(transport: Transport, { pid }: Peer): Transport {
  if (!debug.enabled) return transport;
  const say = (did: string): void => debug(`${transport.lane} to ${pid} ${did}`);
  say('begins');
  return watched(transport, {
    onSent: (header, payloadBytes) => say(`sends ${frameText(header, payloadBytes)}`),
    onArrived: (header, payloadBytes) => say(`takes ${frameText(header, payloadBytes)}`),
    onEnd: (reason) => say(`ends: ${reason}`),
  });
}
