// The time until the death of a peer is reported, and until a killed helper answers again (goals
// G10, G11).
import { measured, payloadOf } from '../rows.mjs';

const manyKills = 30;

export const reliability = {
  name: 'reliability',
  about:
    'SIGKILL of the helper under load: until every pending call is rejected; until the next good call',
  peers: ['sidecall'],
  codecs: ['bytes'],

  cells: ({ seconds }) =>
    ['death', 'respawn'].map((what) => ({
      codec: 'bytes',
      size: 1024,
      inFlight: 100,
      what,
      kills: seconds < 0.5 ? 2 : manyKills,
    })),

  takes: () => true,

  async run(peer, cell) {
    const payload = payloadOf(cell.size);
    const { kills } = cell;
    const latencies = [];
    let errors = 0;
    const row = await measured(peer, cell, async () => {
      for (let kill = 0; kill < kills; kill += 1) {
        await peer.echo(payload);
        const calls = Array.from({ length: cell.inFlight }, () => peer.hang());
        const settled = Promise.allSettled(calls);
        await peer.echo(payload);
        const begun = performance.now();
        process.kill(peer.currentPid(), 'SIGKILL');
        const outcomes = await settled;
        if (outcomes.some(({ reason }) => reason?.code !== 'ERR_SIDECALL_PEER_GONE')) errors += 1;
        if (cell.what === 'respawn') await peer.untilAnswered(payload);
        latencies.push((performance.now() - begun) * 1000);
        if (cell.what === 'death') await peer.untilAnswered(payload);
      }
      return { calls: kills, errors, latencies: Float64Array.from(latencies) };
    });
    return { ...row, what: cell.what };
  },
};
