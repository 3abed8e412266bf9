import { RpcError, spawnHelper } from 'sidecall';
import { QuoteOfTheDay } from './contract.mjs';

const helper = await spawnHelper(new URL('helper.mjs', import.meta.url));
const quotes = helper.client(QuoteOfTheDay, { timeoutMs: 5000 });
for (const name of ['Saturday', 'Sunday', 'Doomsday']) {
  try {
    const { text, author } = await quotes.get({ name });
    console.log(`${name}: ${text} (${author})`);
  } catch (error) {
    if (!RpcError.is(error)) throw error; // the helper has ended, or does not answer in time
    console.log(`${name}: ${error.status}`);
  }
}
await helper.stop();
