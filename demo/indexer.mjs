// The helper: builds a word index of what it is sent, and answers look-ups.
import { parent } from '../dist/index.js';
import { Indexer, Settings } from './contract.mjs';

const session = await parent({ limits: { receiveMaxBytes: 64 * 1024 * 1024 } });
const settings = session.client(Settings);
const pathsByWord = new Map();
let files = 0;
let bytes = 0;

session.serve(Indexer, {
  add(text, { metadata }) {
    files += 1;
    bytes += text.byteLength;
    const words = new Set(
      Buffer.from(text)
        .toString('utf8')
        .toLowerCase()
        .match(/[a-z]{3,24}/g),
    );
    for (const word of words) {
      const paths = pathsByWord.get(word);
      if (paths === undefined) pathsByWord.set(word, [metadata.path]);
      else paths.push(metadata.path);
    }
    return { words: words.size };
  },
  async lookUp({ word }) {
    const paths = pathsByWord.get(word) ?? [];
    return { count: paths.length, first: paths[0] };
  },
  async summary() {
    // Both sides may call: how many words to name is the main process's to say.
    const { top } = await settings.get({ name: 'top' });
    const ranked = [...pathsByWord].sort((a, b) => b[1].length - a[1].length).slice(0, top);
    return { files, bytes, words: pathsByWord.size, top: ranked.map(([word]) => word) };
  },
  rest: (_request, { signal }) =>
    new Promise((_resolve, reject) =>
      signal.addEventListener('abort', () => reject(signal.reason)),
    ),
});
