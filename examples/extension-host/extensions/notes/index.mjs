// Stores a value at the host, and calls a command of another extension.
export function activate({ commands, storage, log }) {
  commands.register('notes.add', async () => {
    const count = ((await storage.get('count')) ?? 0) + 1;
    await storage.set('count', count);
    await log(`${count} notes`);
    return count;
  });
  commands.register('notes.greet', async () => commands.execute('hello.greet', { name: 'notes' }));
}
