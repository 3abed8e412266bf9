// Messages in leased memory (goal P7), one call at a time. `untouched`: blocks are allocated, sent
// and released, and no byte is written or read; `in place`: blocks are filled and summed in place,
// at both ends; `copied`: one copy at the receiver, into reused memory; `bytes`: the codec `bytes`
// for comparison, fresh memory for each message.
import { measured, payloadOf, warmUpSeconds } from '../rows.mjs';
import { load } from './echo.mjs';

const sizes = [64, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304];
const untouchedPeers = ['sidecall', 'shmipc-go-notouch'];

export const lease = {
  name: 'lease',
  about: 'a round trip in leased memory, one call at a time',
  peers: ['sidecall', 'shmipc-go', 'shmipc-go-notouch'],
  codecs: ['bytes'],
  lanes: ['ring'],

  cells: ({ seconds }) =>
    (seconds < 0.5 ? [65_536] : sizes).flatMap((size) =>
      ['untouched', 'in place', 'copied', 'bytes'].map((what) => ({
        codec: 'bytes',
        size,
        inFlight: 1,
        seconds,
        what,
        limitBytes: 8 * 1024 * 1024,
        leases: what === 'copied' || what === 'bytes' ? 'copy' : 'in-place-trusted',
      })),
    ),

  takes: (peer, { what }) => {
    if (what === 'untouched') return untouchedPeers.includes(peer);
    return peer === 'sidecall' || (peer === 'shmipc-go' && what === 'in place');
  },

  async run(peer, cell) {
    const call = callOf(peer, cell);
    await load(call, 1, warmUpSeconds(cell.seconds));
    const row = await measured(peer, cell, () => load(call, 1, cell.seconds));
    return { ...row, what: cell.what, touched: cell.what !== 'untouched' };
  },
};

function callOf(peer, { what, size }) {
  const payload = payloadOf(size);
  if (what === 'bytes') return async () => (await peer.echo(payload)).length === size;
  if (what === 'untouched') {
    return async () => {
      const answer = await peer.lend(peer.allocate(size));
      const isRight = answer.byteLength === size && !answer.copied;
      answer.release();
      return isRight;
    };
  }
  return async (isSampled) => {
    const block = peer.allocate(size);
    payload.copy(block.bytes);
    const answer = await peer.raise(block);
    const isRight = answer.byteLength === size && answer.copied === (what === 'copied');
    const isSame = !isSampled || payload.equals(answer.bytes);
    answer.release();
    return isRight && isSame;
  };
}
