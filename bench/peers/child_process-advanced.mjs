// child_process IPC with serialization 'advanced' (the fast one for bytes), and a number per call.
import { correlated } from './correlate.mjs';
import { servedPath, startServer } from './server.mjs';

export async function open() {
  const { server, pid, stop } = await startServer(import.meta.url, { serialization: 'advanced' });
  const { settle, echo } = correlated((id, payload) => server.send({ id, payload }));
  server.on('message', ({ id, payload }) => settle(id, payload));
  return { serverPid: pid, echo, close: stop };
}

if (servedPath() !== undefined) {
  process.on('message', (message) => process.send(message));
  process.send('ready');
}
