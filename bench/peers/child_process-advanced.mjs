// child_process IPC with serialization 'advanced' (the fast one for bytes), and a number per call.
import { correlated, pourCalls } from './correlate.mjs';
import { servedPath, startServer } from './server.mjs';

export async function open() {
  const { server, pid, stop } = await startServer(import.meta.url, { serialization: 'advanced' });
  const { settle, echo, upload } = correlated((id, payload, kind) =>
    server.send({ id, payload, kind }),
  );
  server.on('message', ({ id, payload }) => settle(id, payload));
  return {
    serverPid: pid,
    echo,
    upload,
    pour: (payload, seconds) => pourCalls(upload, payload, seconds),
    close: stop,
  };
}

if (servedPath() !== undefined) {
  process.on('message', ({ id, payload, kind }) =>
    process.send({ id, payload: kind === 'echo' ? payload : payload.length }),
  );
  process.send('ready');
}
