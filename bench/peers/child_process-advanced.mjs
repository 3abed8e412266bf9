// child_process IPC with serialization 'advanced' (the fast one for bytes), and a number per call.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

export async function open() {
  const server = fork(fileURLToPath(import.meta.url), ['serve'], {
    serialization: 'advanced',
    execArgv: [],
  });
  await once(server, 'message');
  const waiting = new Map();
  let last = 0;
  server.on('message', ({ id, payload }) => {
    const resolve = waiting.get(id);
    waiting.delete(id);
    resolve(payload);
  });
  return {
    serverPid: server.pid,
    echo: (payload) =>
      new Promise((resolve) => {
        last += 1;
        waiting.set(last, resolve);
        server.send({ id: last, payload });
      }),
    close: async () => {
      server.kill();
      await once(server, 'exit');
    },
  };
}

if (process.argv[2] === 'serve') {
  process.on('message', (message) => process.send(message));
  process.send('ready');
}
