// Never answers: once while it listens for a cancel, once while it does not.
export function activate({ commands }) {
  commands.register(
    'hang.wait',
    (_args, { signal }) =>
      new Promise((resolve) => signal.addEventListener('abort', () => resolve())),
  );
  commands.register('hang.deaf', () => new Promise(() => undefined));
}
