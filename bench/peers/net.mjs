// Raw net.Socket over a Unix socket: no calls, no framing. Answers are matched by their order and size.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { createConnection, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export async function open() {
  const path = join(tmpdir(), `bench-net-${process.pid}`);
  const server = fork(fileURLToPath(import.meta.url), ['serve', path], { execArgv: [] });
  await once(server, 'message');
  const socket = createConnection(path);
  await once(socket, 'connect');
  const waiting = [];
  let filled = 0;
  let answer;
  socket.on('data', (chunk) => {
    for (let at = 0; at < chunk.length; ) {
      const wanted = waiting[0].bytes;
      answer ??= Buffer.allocUnsafe(wanted);
      const count = Math.min(wanted - filled, chunk.length - at);
      chunk.copy(answer, filled, at, at + count);
      filled += count;
      at += count;
      if (filled < wanted) return;
      const whole = answer;
      answer = undefined;
      filled = 0;
      waiting.shift().resolve(whole);
    }
  });
  return {
    serverPid: server.pid,
    echo: (payload) =>
      new Promise((resolve) => {
        waiting.push({ bytes: payload.length, resolve });
        socket.write(payload);
      }),
    /** One way: what was sent is not answered, but counted by the server as it comes. */
    pour: async (payload, seconds) => {
      const sink = createConnection(`${path}-sink`);
      await once(sink, 'connect');
      const begun = performance.now();
      let messages = 0;
      for (let now = begun; now < begun + seconds * 1000; now = performance.now()) {
        messages += 1;
        if (!sink.write(payload)) await once(sink, 'drain');
      }
      sink.end();
      await once(sink, 'data'); // the server has all of it
      sink.destroy();
      return messages;
    },
    close: async () => {
      socket.destroy();
      server.kill();
      await once(server, 'exit');
      rmSync(path, { force: true });
      rmSync(`${path}-sink`, { force: true });
    },
  };
}

if (process.argv[2] === 'serve') {
  const path = process.argv[3];
  const server = createServer((socket) => socket.on('data', (chunk) => socket.write(chunk)));
  const sink = createServer({ allowHalfOpen: true }, (socket) => {
    socket.resume();
    socket.on('end', () => socket.end('done'));
  });
  sink.listen(`${path}-sink`, () => server.listen(path, () => process.send('ready')));
}
