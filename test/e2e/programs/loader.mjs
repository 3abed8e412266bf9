// Connects to a path and calls as fast as it can, until it is killed.
import { connect } from '../../../dist/index.js';
import { Demo, say } from './demo.mjs';

const session = await connect({ path: process.argv[2] });
say({ lane: session.lane });
const demo = session.client(Demo);
const payload = new Uint8Array(3000);
for (;;) await Promise.all(Array.from({ length: 16 }, () => demo.echo(payload)));
