// Small calls beside a large transfer in the same direction (goal P13): 100 bytes, one at a time,
// on one connection; alone, beside uploads of 64 MiB in one message each, and beside a stream of
// 64 kB messages. sidecall has further rows: borrowed bytes, and leases.
import { measured, payloadOf, warmUpSeconds } from '../rows.mjs';
import { load } from './echo.mjs';

const uploadBytes = 64 * 1024 * 1024;

/** Transfers of every peer, and those of sidecall alone. */
const commonWhats = ['quiet', 'upload', 'stream'];
const ownWhats = ['upload borrowed', 'stream borrowed', 'stream leased'];

export const fairness = {
  name: 'fairness',
  about: '100-byte calls beside a large transfer on the same connection',
  peers: ['sidecall', 'net', 'child_process-advanced', 'vscode-jsonrpc', 'grpc-js', 'zeromq'],
  codecs: ['bytes'],

  cells: ({ seconds }) =>
    [...commonWhats, ...ownWhats].map((what) => ({
      codec: 'bytes',
      size: 100,
      inFlight: 1,
      seconds,
      what,
      limitBytes: uploadBytes,
    })),

  takes: (peer, { what }) => peer === 'sidecall' || commonWhats.includes(what),

  async run(peer, cell) {
    const payload = payloadOf(cell.size);
    const line = (await peer.openMixed?.()) ?? peer;
    const call = async () => (await line.echo(payload)).length === cell.size;
    let isOver = false;
    const beside = besides[cell.what](line, () => isOver);
    await load(call, 1, warmUpSeconds(cell.seconds));
    const row = await measured(peer, cell, () => load(call, 1, cell.seconds));
    isOver = true;
    const moved = await beside;
    if (line !== peer) line.close();
    return { ...row, what: cell.what, besideBytes: moved };
  },
};

const besides = {
  quiet: async () => 0,

  upload: (peer, isOver) => upload(peer.upload, isOver),
  'upload borrowed': (peer, isOver) => upload(peer.uploadBorrowed, isOver),
  stream: (peer, isOver) => pour(peer, isOver),
  'stream borrowed': (peer, isOver) => pour(peer, isOver, 'pourBorrowed'),
  'stream leased': (peer, isOver) => pour(peer, isOver, 'pourLeased'),
};

async function upload(send, isOver) {
  const payload = Buffer.alloc(uploadBytes, 7);
  let moved = 0;
  while (!isOver()) {
    await send(payload);
    moved += uploadBytes;
  }
  return moved;
}

async function pour(peer, isOver, how) {
  const payload = payloadOf(65_536);
  let moved = 0;
  while (!isOver()) moved += payload.length * (await peer.pour(payload, 0.2, how));
  return moved;
}
