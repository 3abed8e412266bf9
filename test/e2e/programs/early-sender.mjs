// Connects repeatedly over the socket lane, and sends 2 MiB as soon as the session is open.
import { connect } from '../../../dist/index.js';
import { Demo, say } from './demo.mjs';

const [path, times] = process.argv.slice(2);
const request = new Uint8Array(2 * 1024 * 1024);
const failed = [];
let answered = 0;
for (let time = 0; time < Number(times); time += 1) {
  try {
    const session = await connect({ path, lane: 'socket' });
    const answer = await session.client(Demo).echo(request);
    if (answer.length === request.length) answered += 1;
    await session.close();
  } catch (error) {
    failed.push(`${error.code}: ${error.message}`);
  }
}
say({ answered, failed });
