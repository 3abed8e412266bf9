// Crashes a moment after each start, for ever: a crash loop.
export function activate({ commands }) {
  commands.register('loop.start', () => process.abort());
}
