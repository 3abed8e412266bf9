// The processor time of a call, both ends together, beside the least that our ring allows.
import { measured, payloadOf } from '../rows.mjs';
import { countedLoad } from './counted.mjs';

export const floor = {
  name: 'floor',
  about: 'the processor time of a call in one process, beside the least that our ring allows',
  peers: ['sidecall-inside', 'ring-floor'],
  codecs: ['bytes'],

  cells({ seconds }) {
    const isSmoke = seconds < 0.5;
    const cell = { codec: 'bytes', what: 'warm', requests: isSmoke ? 500 : 200_000 };
    const warm = isSmoke ? [[64, 16]] : [64, 1024].flatMap((size) => [16, 1].map((n) => [size, n]));
    return [
      ...warm.map(([size, inFlight]) => ({ ...cell, size, inFlight })),
      { ...cell, size: 1024, inFlight: 16, what: 'cold', requests: isSmoke ? 500 : 10_000 },
    ];
  },

  takes: () => true,

  async run(peer, cell) {
    const { size, inFlight, requests, what } = cell;
    const payload = payloadOf(size);
    const call = async (isSampled) => {
      const answer = await peer.echo(payload);
      return answer.length === size && (!isSampled || payload.equals(answer));
    };
    if (what === 'warm') await countedLoad(call, inFlight, requests);
    const row = await measured(peer, cell, () => countedLoad(call, inFlight, requests));
    return { ...row, what };
  },
};
