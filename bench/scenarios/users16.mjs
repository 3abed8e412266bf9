// golib's own table: 16 callers on one connection, 10,000 requests of each size, the answer as long
// as the request.
import { measured, payloadOf } from '../rows.mjs';
import { countedLoad } from './counted.mjs';

const sizes = [1024, 10_240, 102_400, 1_024_000];

export const users16 = {
  name: 'users16',
  about: "golib's table: 16 callers, a fixed number of requests (10,000), echoed",
  peers: ['sidecall', 'golib-uds', 'grpc-go-uds', 'net'],
  codecs: ['bytes'],

  cells: ({ seconds, requests }) =>
    (seconds < 0.5 ? [1024] : sizes).map((size) => ({
      codec: 'bytes',
      size,
      inFlight: 16,
      requests: requests ?? (seconds < 0.5 ? 500 : 10_000),
    })),

  takes: () => true,

  async run(peer, cell) {
    const payload = payloadOf(cell.size);
    const call = async (isSampled) => {
      const answer = await peer.echo(payload);
      return answer.length === cell.size && (!isSampled || payload.equals(answer));
    };
    await countedLoad(call, cell.inFlight, Math.ceil(cell.requests / 10));
    return measured(peer, cell, () => countedLoad(call, cell.inFlight, cell.requests));
  },
};
