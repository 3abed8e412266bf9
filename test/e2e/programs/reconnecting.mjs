// Many connections that are made again: reconnecting.mjs PATH COUNT. Prints when each came back, on
// the clock of all processes, and behind which pause, and the longest pause that one was told of.
import { connect } from '../../../dist/index.js';
import { say } from './demo.mjs';

const [path, count] = process.argv.slice(2);
const reconnect = { firstMs: 50, maxMs: 400 };
const connections = [];
for (let at = 0; at < Number(count); at += 1) connections.push(await connect({ path, reconnect }));
say({ connected: connections.length });
let longestPauseMs = 0;
const arrivals = await Promise.all(
  connections.map(async (connection) => {
    let pauseMs = 0;
    for await (const state of connection.states()) {
      if (state.state === 'reconnecting') pauseMs = state.pauseMs;
      longestPauseMs = Math.max(longestPauseMs, pauseMs);
      if (state.state === 'connected' && state.reconnects === 1)
        return { atMs: Number(process.hrtime.bigint()) / 1e6, pauseMs };
    }
    return undefined;
  }),
);
say({ arrivals, longestPauseMs });
await Promise.all(connections.map((connection) => connection.close()));
