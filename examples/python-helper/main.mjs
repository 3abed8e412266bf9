// Starts a helper in Python and calls it. Python 3.9 or newer, as `python3` on the path.
import { fileURLToPath } from 'node:url';
import { spawnHelper } from 'sidecall';
import { Words } from './contract.mjs';

const text = process.argv[2] ?? 'snakes and nodes are friends';
const program = fileURLToPath(new URL('helper.py', import.meta.url));
const helper = await spawnHelper('python3', [program]);
const words = helper.session.client(Words);
console.log(`${await words.count(text)} words, over the ${helper.session.lane} lane`);
for await (const { word, letters } of words.split(text)) console.log(`${word}: ${letters}`);
await helper.stop();
