// vscode-jsonrpc over a Unix socket; JSON carries no bytes, so they travel as base64.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { createConnection, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  createMessageConnection,
  SocketMessageReader,
  SocketMessageWriter,
} from 'vscode-jsonrpc/node';
import { pourCalls } from './correlate.mjs';

function connectionOver(socket) {
  const connection = createMessageConnection(
    new SocketMessageReader(socket),
    new SocketMessageWriter(socket),
  );
  return connection;
}

export async function open() {
  const path = join(tmpdir(), `bench-jsonrpc-${process.pid}`);
  const server = fork(fileURLToPath(import.meta.url), ['serve', path], { execArgv: [] });
  await once(server, 'message');
  const first = await connected(path);
  return {
    serverPid: server.pid,
    echo: first.echo,
    upload: first.upload,
    pour: (payload, seconds) => pourCalls(first.upload, payload, seconds),
    connectAgain: () => connected(path),
    close: async () => {
      await first.close();
      server.kill();
      await once(server, 'exit');
      rmSync(path, { force: true });
    },
  };
}

async function connected(path) {
  const socket = createConnection(path);
  await once(socket, 'connect');
  const connection = connectionOver(socket);
  connection.listen();
  return {
    echo: async (payload) =>
      Buffer.from(await connection.sendRequest('echo', payload.toString('base64')), 'base64'),
    upload: (payload) => connection.sendRequest('upload', payload.toString('base64')),
    close: async () => {
      connection.dispose();
      socket.destroy();
    },
  };
}

if (process.argv[2] === 'serve') {
  const server = createServer((socket) => {
    const connection = connectionOver(socket);
    // The bytes are decoded and encoded again, since a real server has to read them.
    connection.onRequest('echo', (text) => Buffer.from(text, 'base64').toString('base64'));
    connection.onRequest('upload', (text) => Buffer.from(text, 'base64').length);
    connection.listen();
  });
  server.listen(process.argv[3], () => process.send('ready'));
}
