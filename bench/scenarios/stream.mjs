// Messages in one direction at full speed: from the caller (`pour`) and to it (`drip`), goal P8.
// `calls` counts messages.
import { measured, payloadOf, warmUpSeconds } from '../rows.mjs';

export const stream = {
  name: 'stream',
  about: 'one-way streams of messages; calls are messages',
  peers: ['sidecall', 'net', 'c-ring-oneway'],
  codecs: ['bytes'],

  cells: ({ seconds }) =>
    [1024, 65_536].flatMap((size) =>
      Object.keys(flows).map((what) => ({
        codec: 'bytes',
        size,
        inFlight: 1,
        seconds,
        what,
      })),
    ),

  takes: (peer, { what }) => peer === 'sidecall' || what === 'pour',

  async run(peer, cell) {
    const flow = flows[cell.what];
    await flow(peer, cell.size, warmUpSeconds(cell.seconds));
    let rssAtHalf;
    const row = await measured(peer, cell, async () => {
      const first = await flow(peer, cell.size, cell.seconds / 2);
      rssAtHalf = peer.rss();
      const second = await flow(peer, cell.size, cell.seconds / 2);
      return { calls: first + second, errors: 0, latencies: new Float64Array(1) };
    });
    const growth = row.rssClientBytes + row.rssServerBytes - rssAtHalf.client - rssAtHalf.server;
    return {
      ...row,
      bytesPerSecond: row.callsPerSecond * cell.size,
      what: cell.what,
      growthBytes: growth,
    };
  },
};

/** The ways that messages go, by their names. */
export const flows = {
  pour,
  drip,
  'pour borrowed': (peer, size, seconds) => peer.pour(payloadOf(size), seconds, 'pourBorrowed'),
  'drip borrowed': (peer, size, seconds) => drip(peer, size, seconds, 'dripBorrowed'),
  'pour leased': (peer, size, seconds) => peer.pour(payloadOf(size), seconds, 'pourLeased'),
  'drip leased': dripLeased,
};

async function dripLeased(peer, size, seconds) {
  let messages = 0;
  for await (const lease of peer.dripLeased({ size, milliseconds: seconds * 1000 })) {
    messages += 1;
    if (lease.byteLength !== size || lease.bytes[size - 1] !== 7)
      throw new Error('a wrong message');
    lease.release();
  }
  return messages;
}

function pour(peer, size, seconds) {
  return peer.pour(payloadOf(size), seconds);
}

async function drip(peer, size, seconds, how = 'drip') {
  let messages = 0;
  for await (const message of peer[how]({ size, milliseconds: seconds * 1000 })) {
    messages += 1;
    if (message.length !== size || message[size - 1] !== 7) throw new Error('a wrong message');
  }
  return messages;
}
