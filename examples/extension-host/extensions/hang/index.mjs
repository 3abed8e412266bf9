// Commands that never answer: one ends on a cancel, one ignores it.
export function activate({ commands }) {
  commands.register(
    'hang.wait',
    (_args, { signal }) =>
      new Promise((resolve) => signal.addEventListener('abort', () => resolve())),
  );
  commands.register('hang.deaf', () => new Promise(() => undefined));
}
