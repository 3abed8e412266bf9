// The time until a further connection to a server that runs is open, and until its first call is
// answered. Both processes are at rest before each; closing is not part of it.
import { measured, pause, payloadOf } from '../rows.mjs';

const pauseMs = 1;
const warmUps = 3_000;

export const connect = {
  name: 'connect',
  about: 'a further connection: until it is open, and until its first call is answered',
  peers: ['sidecall', 'grpc-js', 'vscode-jsonrpc', 'zeromq', 'net'],
  codecs: ['bytes'],

  cells: ({ seconds }) =>
    ['open', 'first answer'].map((what) => ({
      codec: 'bytes',
      size: 64,
      inFlight: 1,
      count: seconds < 0.5 ? 50 : 2_000,
      what,
    })),

  // A socket of zeromq does not say when it is connected, and vscode-jsonrpc has no opening of its
  // own beside that of the socket.
  takes: (peer, { what }) => what !== 'open' || (peer !== 'zeromq' && peer !== 'vscode-jsonrpc'),

  async run(peer, { count, ...cell }) {
    const payload = payloadOf(cell.size);
    const connectOnce = async () => {
      await pause(pauseMs);
      const begun = performance.now();
      const connection = await peer.connectAgain();
      const openUs = (performance.now() - begun) * 1000;
      const answer = await connection.echo(payload);
      const answerUs = (performance.now() - begun) * 1000;
      await connection.close();
      return {
        us: cell.what === 'open' ? openUs : answerUs,
        isRight: payload.equals(Buffer.from(answer)),
      };
    };
    for (let done = 0; done < Math.min(warmUps, 10 * count); done += 1) await connectOnce();
    const row = await measured(peer, cell, async () => {
      const latencies = new Float64Array(count);
      let errors = 0;
      for (let at = 0; at < count; at += 1) {
        const { us, isRight } = await connectOnce();
        latencies[at] = us;
        if (!isRight) errors += 1;
      }
      return { calls: count, errors, latencies };
    });
    // Rounds are compared by their medians: the pauses say nothing.
    return { ...row, callsPerSecond: 1e6 / row.p50Us, bytesPerSecond: 0, what: cell.what };
  },
};
