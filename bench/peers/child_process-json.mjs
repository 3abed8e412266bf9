// child_process IPC as it is by default: JSON. It carries no bytes, so they travel as base64.
import { correlated } from './correlate.mjs';
import { servedPath, startServer } from './server.mjs';

export async function open() {
  const { server, pid, stop } = await startServer(import.meta.url);
  const { settle, echo } = correlated((id, payload) =>
    server.send({ id, payload: payload.toString('base64') }),
  );
  const values = correlated((id, value) => server.send({ id, value }));
  server.on('message', ({ id, payload, value }) => {
    if (payload === undefined) values.settle(id, value);
    else settle(id, Buffer.from(payload, 'base64'));
  });
  return { serverPid: pid, echo, echoJson: values.echo, close: stop };
}

if (servedPath() !== undefined) {
  // The bytes are decoded and encoded again, since a real server has to read them.
  process.on('message', ({ id, payload, value }) =>
    process.send(
      payload === undefined
        ? { id, value }
        : { id, payload: Buffer.from(payload, 'base64').toString('base64') },
    ),
  );
  process.send('ready');
}
