// Prints how many functions of ours both sides of a plain call run, by the counts of V8.
import { Session } from 'node:inspector/promises';
import { bytes, connect, listen, service, unary } from '../../../dist/index.js';
import { say } from './demo.mjs';

const Echo = service('Echo', { echo: unary({ request: bytes, response: bytes }) });
const listener = await listen();
listener.serve(Echo, { echo: (message) => message });
const session = await connect({ path: listener.path });
const { echo } = session.client(Echo);
const message = new Uint8Array(1024);
const calls = 4_000;

async function callAll() {
  const caller = async () => {
    for (let call = 0; call < calls / 16; call += 1) await echo(message);
  };
  await Promise.all(Array.from({ length: 16 }, caller));
}

await callAll();
const inspector = new Session();
inspector.connect();
await inspector.post('Profiler.enable');
await inspector.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
await callAll();
const { result } = await inspector.post('Profiler.takePreciseCoverage');
const ours = result.filter(({ url }) => url.includes('/dist/'));
const counts = ours.flatMap(({ functions }) => functions.map(({ ranges }) => ranges[0].count));
inspector.disconnect();
await session.close();
await listener.close();
say({ functions: Math.round(counts.reduce((all, one) => all + one, 0) / calls) });
