// Loads a large word list once, and completes words for every run of the command.
import { listenShared } from 'sidecall';
import { Words } from './contract.mjs';

await listenShared({
  ready: (listener) => {
    const words = load();
    listener.serve(Words, {
      complete: (text) => {
        const first = words.findIndex((word) => word.startsWith(text));
        const found = first === -1 ? [] : words.slice(first, first + 3);
        return { found: found.filter((word) => word.startsWith(text)), words: words.length };
      },
    });
  },
});

/** Half a million words, sorted: what makes a cold start slow. */
function load() {
  const syllables = [
    'ba',
    'co',
    'di',
    'fu',
    'ga',
    'lo',
    'mi',
    'nu',
    'pa',
    're',
    'si',
    'to',
    'vu',
    'za',
  ];
  const words = [];
  for (let number = 0; number < 500_000; number += 1) {
    let word = '';
    for (let left = number + 196; left > 0; left = Math.floor(left / 14)) {
      word += syllables[left % 14];
    }
    words.push(word);
  }
  return words.sort((a, b) => a.localeCompare(b));
}
