// Connects to a path and calls as fast as it can, until it is killed.
import { connect } from '../../../dist/index.js';
import { Desk, say } from './desk.mjs';

const session = await connect({ path: process.argv[2] });
say({ lane: session.lane });
const desk = session.client(Desk);
const payload = new Uint8Array(3000);
for (;;) await Promise.all(Array.from({ length: 16 }, () => desk.echo(payload)));
