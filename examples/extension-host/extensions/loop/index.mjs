// Aborts its process in each run of its command; repeated runs are a crash loop.
export function activate({ commands }) {
  commands.register('loop.start', () => process.abort());
}
