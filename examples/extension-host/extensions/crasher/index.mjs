// Ends its process.
export function activate({ commands }) {
  commands.register('crasher.crash', () => process.exit(1));
}
