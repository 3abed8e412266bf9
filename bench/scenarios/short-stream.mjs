// The cost of a short stream beside one that is reused (`bidi` calls): one message there and one
// back. `new each time`: the stream is opened before them and ended behind them; `reused`: it stays
// open.
import { measured, payloadOf, warmUpSeconds } from '../rows.mjs';
import { load } from './echo.mjs';

export const shortStream = {
  name: 'short-stream',
  about: 'a stream of one message each way: opened each time, and reused',
  peers: ['sidecall', 'grpc-js'],
  codecs: ['bytes'],

  cells: ({ seconds }) =>
    ['new each time', 'reused'].map((what) => ({
      codec: 'bytes',
      size: 64,
      inFlight: 1,
      seconds,
      what,
    })),

  takes: () => true,

  async run(peer, cell) {
    const payload = payloadOf(cell.size);
    const kept = cell.what === 'reused' ? peer.openStream() : undefined;
    const call = async () => {
      const stream = kept ?? peer.openStream();
      const answer = await stream.exchange(payload);
      if (kept === undefined) await stream.end();
      return payload.equals(answer);
    };
    await load(call, 1, warmUpSeconds(cell.seconds));
    const row = await measured(peer, cell, () => load(call, 1, cell.seconds));
    await kept?.end();
    return { ...row, what: cell.what };
  },
};
