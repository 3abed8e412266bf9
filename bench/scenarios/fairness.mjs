// Small calls beside a large transfer in the same direction (goal P13): 100 bytes, one at a time;
// alone, beside uploads of 64 MiB in one message each, and beside a stream of 64 kB messages, in
// fresh memory and in leases.
import { measured, payloadOf } from '../rows.mjs';
import { load } from './echo.mjs';

const uploadBytes = 64 * 1024 * 1024;

export const fairness = {
  name: 'fairness',
  about: '100-byte calls beside a large transfer on the same session',
  peers: ['sidecall'],
  codecs: ['bytes'],

  cells: ({ seconds }) =>
    ['quiet', 'upload', 'stream', 'stream leased'].map((what) => ({
      codec: 'bytes',
      size: 100,
      inFlight: 1,
      seconds,
      what,
      limitBytes: uploadBytes,
    })),

  takes: () => true,

  async run(peer, cell) {
    const payload = payloadOf(cell.size);
    const call = async () => (await peer.echo(payload)).length === cell.size;
    let isOver = false;
    const beside = besides[cell.what](peer, () => isOver);
    await load(call, 1, Math.min(1, cell.seconds / 2));
    const row = await measured(peer, cell, () => load(call, 1, cell.seconds));
    isOver = true;
    const moved = await beside;
    return { ...row, what: cell.what, besideBytes: moved };
  },
};

const besides = {
  quiet: async () => 0,

  async upload(peer, isOver) {
    const payload = Buffer.alloc(uploadBytes, 7);
    let moved = 0;
    while (!isOver()) {
      await peer.upload(payload);
      moved += uploadBytes;
    }
    return moved;
  },

  stream: (peer, isOver) => pour(peer, isOver, false),
  'stream leased': (peer, isOver) => pour(peer, isOver, true),
};

async function pour(peer, isOver, isLeased) {
  const payload = payloadOf(65_536);
  let moved = 0;
  while (!isOver())
    moved += payload.length * (await peer.pour(payload, 0.2, isLeased ? 'pourLeased' : 'pour'));
  return moved;
}
