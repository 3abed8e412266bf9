// Which codec for which size: an echo of bytes, 16 at once, in each way that sidecall has, beside
// the peers.
import { measured, payloadOf, warmUpSeconds } from '../rows.mjs';
import { borrowedCall, load } from './echo.mjs';

const sizes = [1024, 4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304];
const node = ['sidecall', 'zeromq', 'net', 'child_process-advanced'];
const whats = {
  bytes: undefined,
  borrowed: ['sidecall'],
  'leased in place': ['sidecall'],
};

export const codecs = {
  name: 'codecs',
  about: 'ways to send bytes by their size, 16 calls at once (c-ring: one)',
  peers: [...node, 'shmipc-go', 'golib-uds', 'grpc-go-uds', 'c-ring'],
  codecs: ['bytes'],
  lanes: ['ring'],

  cells: ({ seconds }) =>
    (seconds < 0.5 ? [65_536] : sizes).flatMap((size) => [
      ...Object.keys(whats).map((what) => cellOf(size, what, seconds, 16)),
      cellOf(size, 'bytes', seconds, 1),
    ]),

  takes: (peer, { what, inFlight }) =>
    (peer === 'c-ring') === (inFlight === 1) && (whats[what]?.includes(peer) ?? true),

  async run(peer, cell) {
    const call = callOf(peer, cell);
    await load(call, cell.inFlight, warmUpSeconds(cell.seconds));
    const row = await measured(peer, cell, () => load(call, cell.inFlight, cell.seconds));
    return { ...row, what: cell.what };
  },
};

function cellOf(size, what, seconds, inFlight) {
  return {
    codec: 'bytes',
    size,
    inFlight,
    seconds,
    what,
    limitBytes: 8 * 1024 * 1024,
    ...(what === 'leased in place' && { leases: 'in-place-trusted' }),
  };
}

function callOf(peer, { what, size }) {
  if (what === 'borrowed') return borrowedCall(peer, size);
  const payload = payloadOf(size);
  if (what === 'leased in place') {
    return async (isSampled) => {
      const block = peer.allocate(size);
      payload.copy(block.bytes);
      const answer = await peer.raise(block);
      const isSame = !isSampled || payload.equals(answer.bytes);
      const isRight = answer.byteLength === size && !answer.copied && isSame;
      answer.release();
      return isRight;
    };
  }
  return async (isSampled) => {
    const answer = await peer.echo(payload);
    return answer.length === size && (!isSampled || payload.equals(answer));
  };
}
