// Raw net.Socket over a Unix socket: no calls, no framing. Answers are matched by their order and
// size.
import { once } from 'node:events';
import { createConnection, createServer } from 'node:net';
import { pourCalls } from './correlate.mjs';
import { servedPath, startServer } from './server.mjs';

export async function open() {
  const { path, pid, stop } = await startServer(import.meta.url);
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
    serverPid: pid,
    echo: (payload) =>
      new Promise((resolve) => {
        waiting.push({ bytes: payload.length, resolve });
        socket.write(payload);
      }),
    /** The server answers no message of this row; it counts the bytes that arrive. */
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
      await once(sink, 'data'); // the server has received all bytes
      sink.destroy();
      return messages;
    },
    /** The server sends first; each side reads until it has a whole message. */
    openPingPong: async (size) => {
      const line = createConnection(`${path}-pingpong`);
      await once(line, 'connect');
      line.write(Buffer.from(Uint32Array.of(size).buffer));
      const receive = reading(line, size);
      return {
        receive,
        send: async (message) => void line.write(message),
        close: () => line.destroy(),
      };
    },
    /** The connection carries framed messages, each with its kind. */
    openMixed: async () => {
      const line = createConnection(`${path}-frames`);
      await once(line, 'connect');
      const waiting = [];
      readFrames(line, (kind, answer) =>
        waiting.shift()(kind === kinds.upload ? answer.readUInt32LE() : answer),
      );
      const call = (kind, payload) =>
        new Promise((resolve) => {
          waiting.push(resolve);
          writeFrame(line, kind, payload);
        });
      const upload = (payload) => call(kinds.upload, payload);
      return {
        echo: (payload) => call(kinds.echo, payload),
        upload,
        pour: (payload, seconds) => pourCalls(upload, payload, seconds),
        close: () => line.destroy(),
      };
    },
    connectAgain: async () => {
      const line = createConnection(path);
      await once(line, 'connect');
      return {
        echo: (payload) => {
          line.write(payload);
          return reading(line, payload.length)();
        },
        close: () => line.destroy(),
      };
    },
    close: async () => {
      socket.destroy();
      await stop();
    },
  };
}

/** Returns a function that resolves with the next `size` bytes. */
function reading(socket, size) {
  let parts = [];
  let filled = 0;
  let waiting;
  const give = () => {
    if (waiting === undefined || filled < size) return;
    const all = parts.length === 1 ? parts[0] : Buffer.concat(parts);
    const resolve = waiting;
    waiting = undefined;
    parts = filled > size ? [all.subarray(size)] : [];
    filled -= size;
    resolve(all.subarray(0, size));
  };
  socket.on('data', (chunk) => {
    parts.push(chunk);
    filled += chunk.length;
    give();
  });
  return () =>
    new Promise((resolve) => {
      waiting = resolve;
      give();
    });
}

const kinds = { echo: 0, upload: 1 };
const headBytes = 5;

/** A head of five bytes (the length of the payload, and its kind), then the payload. */
function writeFrame(socket, kind, payload) {
  const head = Buffer.allocUnsafe(headBytes);
  head.writeUInt32LE(payload.length);
  head[4] = kind;
  socket.cork();
  socket.write(head);
  socket.write(payload);
  socket.uncork();
}

function readFrames(socket, onFrame) {
  const head = Buffer.alloc(headBytes);
  let payload;
  let filled = 0;
  socket.on('data', (chunk) => {
    for (let at = 0; at < chunk.length; ) {
      const into = payload ?? head;
      const count = Math.min(into.length - filled, chunk.length - at);
      chunk.copy(into, filled, at, at + count);
      filled += count;
      at += count;
      if (filled < into.length) return;
      filled = 0;
      if (payload === undefined) payload = Buffer.allocUnsafeSlow(head.readUInt32LE());
      else {
        const whole = payload;
        payload = undefined;
        onFrame(head[4], whole);
      }
    }
  });
}

async function playPingPong(socket) {
  socket.on('error', () => undefined);
  const size = (await reading(socket, 4)()).readUInt32LE(0);
  socket.removeAllListeners('data');
  const receive = reading(socket, size);
  for (let count = 0; !socket.destroyed; count += 1) {
    const own = Buffer.alloc(size, count & 0xff);
    socket.write(own);
    if (!own.equals(await receive())) throw new Error('a wrong answer');
  }
}

const path = servedPath();
if (path !== undefined) {
  const server = createServer((socket) => socket.on('data', (chunk) => socket.write(chunk)));
  const sink = createServer({ allowHalfOpen: true }, (socket) => {
    socket.resume();
    socket.on('end', () => socket.end('done'));
  });
  const game = createServer((socket) => void playPingPong(socket));
  const frames = createServer((socket) => {
    socket.on('error', () => undefined);
    readFrames(socket, (kind, payload) => {
      const length = () => Buffer.from(Uint32Array.of(payload.length).buffer);
      writeFrame(socket, kind, kind === kinds.upload ? length() : payload);
    });
  });
  frames.listen(`${path}-frames`);
  sink.listen(`${path}-sink`, () =>
    game.listen(`${path}-pingpong`, () => server.listen(path, () => process.send('ready'))),
  );
}
