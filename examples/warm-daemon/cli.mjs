// Completes a word. The first run starts a daemon that all later ones share; it ends a minute after
// the last one. `npx sidecall ps` lists it.
import { sharedHelper } from 'sidecall';
import { Words } from './contract.mjs';

const [text] = process.argv.slice(2);
if (text === undefined) {
  console.error('usage: node cli.mjs TEXT');
  process.exit(2);
}
const begun = performance.now();
const daemon = await sharedHelper({
  name: 'warm-daemon-example',
  version: '1.0.0',
  program: new URL('daemon.mjs', import.meta.url),
});
const { found, words } = await daemon.client(Words).complete(text);
await daemon.close();
console.log(found.join(' ') || 'no word');
console.log(`of ${words} words, in ${Math.round(performance.now() - begun)} ms`);
