// Idle sessions: CPU, wake-ups, and memory beside their rings (goal P11), at the server.
import { readFileSync } from 'node:fs';
import { pause } from '../rows.mjs';

const manySessions = 200;

export const idle = {
  name: 'idle',
  about: 'what sessions cost that nobody uses',
  peers: ['sidecall'],
  codecs: ['bytes'],

  cells: ({ seconds }) => [
    {
      codec: 'bytes',
      size: 0,
      inFlight: 0,
      seconds: seconds < 0.5 ? seconds : Math.max(seconds, 2),
      sessions: seconds < 0.5 ? 20 : manySessions,
    },
  ],

  takes: () => true,

  async run(peer, { seconds, sessions }) {
    const pid = peer.serverPid;
    const closeWarm = await peer.openIdle(sessions); // loads the code, grows the heap
    await closeWarm();
    await pause(500);
    const before = statusOf(pid);
    const close = await peer.openIdle(sessions);
    await pause(1000);
    const opened = statusOf(pid);
    const cpuBefore = peer.cpu();
    await pause(seconds * 1000);
    const after = statusOf(pid);
    const cpuAfter = peer.cpu();
    await close();
    return {
      codec: 'bytes',
      size: 0,
      inFlight: 0,
      callsPerSecond: 0,
      bytesPerSecond: 0,
      p50Us: 0,
      p90Us: 0,
      p99Us: 0,
      p999Us: 0,
      maxUs: 0,
      cpuClientSeconds: cpuAfter.client - cpuBefore.client,
      cpuServerSeconds: cpuAfter.server - cpuBefore.server,
      rssClientBytes: 0,
      rssServerBytes: opened.anonymous,
      calls: 0,
      errors: 0,
      touched: false,
      messageLimitBytes: null,
      sessions,
      rssBytesPerSession: (opened.anonymous - before.anonymous) / sessions,
      wakeUpsPerSession: (after.switches - opened.switches) / sessions,
      wakeUps: after.switches - opened.switches,
    };
  },
};

function statusOf(pid) {
  const text = readFileSync(`/proc/${pid}/status`, 'utf8');
  const number = (name) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? 0);
  return { anonymous: number('RssAnon') * 1024, switches: number('voluntary_ctxt_switches') };
}
