// A program that uses a shared helper. Arguments: the name, the version, how often.
import { service, sharedHelper, unary } from '../../../dist/index.js';

const [name, version, rounds = '1'] = process.argv.slice(2);
const Clock = service('Clock', { where: unary() });
const program = new URL('shared.mjs', import.meta.url);
for (let round = 0; round < Number(rounds); round += 1) {
  const helper = await sharedHelper({ name, version, program, idleTimeoutMs: 200 });
  const { pid } = await helper.client(Clock).where();
  console.log(JSON.stringify({ pid }));
  await helper.close();
}
