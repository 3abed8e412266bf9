// A program that asks for the shared helper at each line of its input. Arguments: the file of the
// helper, and its idle time.
import { createInterface } from 'node:readline';
import { service, sharedHelper, unary } from '../../../dist/index.js';

const [file, idleTimeoutMs] = process.argv.slice(2);
const Election = service('Election', { where: unary({ idempotent: true }) });
const program = new URL('election-helper.mjs', import.meta.url);
const options = { name: 'election', version: '1.0.0', program, args: [file] };
for await (const round of createInterface({ input: process.stdin })) {
  const since = performance.now();
  try {
    const limits = { idleTimeoutMs: Number(idleTimeoutMs), startTimeoutMs: 600_000 };
    const helper = await sharedHelper({ ...options, ...limits });
    const client = helper.client(Election, { retry: { attempts: 20 } });
    const pid = await client.where(undefined, { timeoutMs: 600_000 });
    await helper.close();
    console.log(JSON.stringify({ round, pid, ms: performance.now() - since }));
  } catch (error) {
    console.log(JSON.stringify({ round, error: `${error.code}: ${error.message}` }));
  }
}
