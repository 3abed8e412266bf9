// Connects many times at once, and calls once over each session. Arguments: path, count.
import { connect } from '../../../dist/index.js';
import { Demo, say } from './demo.mjs';

const [path, count] = process.argv.slice(2);
const sessions = await Promise.all(
  Array.from({ length: Number(count) }, () => connect({ path, timeoutMs: 60_000 })),
);
const sums = await Promise.all(
  sessions.map(async (session, a) => (await session.client(Demo).add({ a, b: 1 })).sum),
);
say({ sessions: sessions.length, right: sums.filter((sum, a) => sum === a + 1).length });
await Promise.all(sessions.map((session) => session.close()));
