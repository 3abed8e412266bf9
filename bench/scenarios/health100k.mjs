// The table of grpc-unix-socket: 100,000 health checks, one after the other, over a Unix socket and
// over TCP.
import { measured } from '../rows.mjs';
import { countedLoad } from './counted.mjs';

export const health100k = {
  name: 'health100k',
  about: 'health checks, one after the other (100,000)',
  peers: ['sidecall', 'grpc-go-uds', 'grpc-go-tcp'],
  codecs: ['bytes'],
  pairs: [['grpc-go-uds', 'grpc-go-tcp']],

  cells: ({ seconds, requests }) => [
    {
      codec: 'bytes',
      size: 0,
      inFlight: 1,
      requests: requests ?? (seconds < 0.5 ? 500 : 100_000),
    },
  ],

  takes: () => true,

  async run(peer, cell) {
    const call = async () => (await peer.check()) === 'serving';
    await countedLoad(call, 1, Math.ceil(cell.requests / 10));
    const row = await measured(peer, cell, () => countedLoad(call, 1, cell.requests));
    return { ...row, touched: false };
  },
};
