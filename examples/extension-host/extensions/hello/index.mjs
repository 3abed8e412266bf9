// Shares a process with `notes`.
export function activate({ commands, log }) {
  commands.register('hello.greet', async (args) => {
    const words = `hello, ${args?.name ?? 'world'}`;
    await log(words);
    return words;
  });
}
