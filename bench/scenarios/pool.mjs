// Pools of workers that keep a processor busy.
import { measured } from '../rows.mjs';
import { countedLoad } from './counted.mjs';

/** Rounds of the work: about 0.05 ms, and about 1 ms. */
const works = { short: 100, long: 2_000 };
const text = 'x'.repeat(1_000);

export const pool = {
  name: 'pool',
  about: 'pools of 1, 2 and 4 workers whose handlers compute for 0.05 and for 1 ms',
  peers: [
    'sidecall-pool',
    'sidecall-pool-polling',
    'piscina',
    'tinypool-threads',
    'tinypool-processes',
  ],
  codecs: ['json'],

  cells: ({ seconds }) =>
    [1, 2, 4].flatMap((workers) =>
      Object.keys(works).map((work) => ({
        codec: 'json',
        size: 1_000,
        inFlight: 2 * workers,
        workers,
        work,
        seconds,
      })),
    ),

  takes: () => true,

  async run(peer, cell) {
    const { workers, work, inFlight, seconds } = cell;
    const item = { rounds: works[work], text };
    const known = await peer.work(item);
    const call = async (isSampled) => {
      const answer = await peer.work(item);
      return !isSampled || answer === known;
    };
    // Each worker has compiled its code after as many calls.
    const warmUp = seconds < 0.5 ? 200 : 10_000 * workers;
    await countedLoad(() => peer.work({ rounds: 1, text }), inFlight, warmUp);
    const calls = Math.ceil((work === 'short' ? 20_000 : 3_000) * seconds);
    const row = await measured(peer, cell, () => countedLoad(call, inFlight, calls));
    return { ...row, workers, what: `${workers} workers, ${work} work` };
  },
};
