// Calls on a machine that others use: beside processes that compute without pause.
import { spawn } from 'node:child_process';
import { runEcho } from './echo.mjs';

export const busy = {
  name: 'busy',
  about: 'calls in JSON beside processes that compute without pause',
  peers: ['sidecall', 'child_process-json'],
  codecs: ['json'],

  cells: ({ seconds }) =>
    (seconds < 0.5 ? [1] : [1, 2, 4, 8, 16]).flatMap((processes) =>
      [1, 16].map((inFlight) => ({
        codec: 'json',
        size: 1024,
        inFlight,
        seconds,
        processes,
        what: `beside ${processes}`,
      })),
    ),

  takes: () => true,

  async run(peer, cell) {
    const others = Array.from({ length: cell.processes }, () =>
      spawn(
        process.execPath,
        ['-e', 'const end = Date.now() + 120_000; while (Date.now() < end);'],
        { stdio: 'ignore' },
      ),
    );
    const end = () => others.forEach((other) => void other.kill('SIGKILL'));
    process.once('exit', end);
    try {
      const row = await runEcho(peer, cell);
      return { ...row, what: cell.what };
    } finally {
      end();
    }
  },
};
