// A listener that takes whatever comes: returning.mjs PATH. Prints when it listens, on the clock of
// all processes.
import { listen } from '../../../dist/index.js';
import { say } from './demo.mjs';

const listener = await listen({ path: process.argv[2] });
say({ listensAt: Number(process.hrtime.bigint()) / 1e6 });
for await (const session of listener) void session.closed;
