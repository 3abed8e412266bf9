// The NUMA ping-pong: one stream of messages, the server sends first, each operation is one message
// there and one back; operations are counted per second. `--numa` places the processes.
import { measured } from '../rows.mjs';

const sizes = [1, 64, 1024, 4096, 16_384, 65_536, 1_048_576];

export const pingpong = {
  name: 'pingpong',
  about:
    'one stream, the server sends first; operations per second, counted in windows of a second',
  peers: ['sidecall', 'net', 'c-uds'],
  codecs: ['bytes'],
  isPlaced: true,

  cells: ({ seconds, windows, numa }) =>
    (seconds < 0.5 ? [1024] : sizes).map((size) => ({
      codec: 'bytes',
      size,
      inFlight: 1,
      seconds: windows ?? Math.max(1, Math.round(seconds)), // windows of a second
      what: `--numa ${numa}`,
    })),

  takes: () => true,

  async run(peer, cell) {
    const { receive, send, close } = await peer.openPingPong(cell.size);
    const windows = new Array(cell.seconds).fill(0);
    const latencies = [];
    let operations = 0;
    let errors = 0;
    const play = async (from, until, count) => {
      for (let then = performance.now(); then < until; operations += 1) {
        const there = await receive();
        const filling = operations & 0xff;
        const own = Buffer.alloc(cell.size, filling);
        if (!own.equals(there)) errors += 1;
        await send(own);
        const now = performance.now();
        if (count && latencies.length < 2_000_000) latencies.push((now - then) * 1000);
        if (count) windows[Math.min(cell.seconds - 1, Math.floor((then - from) / 1000))] += 1;
        then = now;
      }
    };
    const begun = performance.now();
    await play(begun, begun + 1000, false);
    const row = await measured(peer, cell, async () => {
      const from = performance.now();
      await play(from, from + cell.seconds * 1000, true);
      const calls = windows.reduce((all, one) => all + one, 0);
      return { calls, errors, latencies: Float64Array.from(latencies) };
    });
    await close();
    return { ...row, windows, what: cell.what };
  },
};
