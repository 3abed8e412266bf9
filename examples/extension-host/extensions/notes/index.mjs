// Stores a value at the host, calls a command of another extension, and finishes before its process
// ends.
let notes;

export function activate({ commands, storage, log }) {
  commands.register('notes.add', async () => {
    const count = ((await storage.get('count')) ?? 0) + 1;
    await storage.set('count', count);
    notes = count;
    await log(`${count} notes`);
    return count;
  });
  commands.register('notes.greet', async () => commands.execute('hello.greet', { name: 'notes' }));
}

export function deactivate() {
  if (notes !== undefined) console.log(`closed with ${notes} notes`);
}
