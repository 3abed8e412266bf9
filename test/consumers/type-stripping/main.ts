// Run without a build: types are removed as it is loaded.
import { spawnHelper } from 'sidecall';
import { Sums } from './contract.ts';

const helper = await spawnHelper(new URL('helper.ts', import.meta.url));
const three: number = await helper.client(Sums).add({ a: 1, b: 2 });
console.log(`a typed helper: ${three}`);
await helper.stop();
