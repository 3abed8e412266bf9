// zeromq.js: DEALER and ROUTER over ipc://, without a high-water mark, and a number per call.
import { Dealer, Router } from 'zeromq';
import { correlated, pourCalls } from './correlate.mjs';
import { servedPath, startServer } from './server.mjs';

const roomy = { sendHighWaterMark: 10_000, receiveHighWaterMark: 10_000 };

export async function open() {
  const { path, pid, stop } = await startServer(import.meta.url);
  const first = connected(path);
  return {
    serverPid: pid,
    echo: first.echo,
    upload: first.upload,
    pour: (payload, seconds) => pourCalls(first.upload, payload, seconds),
    connectAgain: async () => connected(path),
    close: async () => {
      first.close();
      await stop();
    },
  };
}

function connected(path) {
  const dealer = new Dealer({ ...roomy, linger: 0 });
  dealer.connect(`ipc://${path}`);
  // One send at a time: the library allows no other.
  const outgoing = [];
  let isSending = false;
  const { settle, echo, upload } = correlated((id, payload, kind) => {
    const name = Buffer.allocUnsafe(5);
    name.writeUInt32LE(id);
    name[4] = kind === 'upload' ? 1 : 0;
    outgoing.push([name, payload]);
    void send();
  });
  async function send() {
    if (isSending) return;
    isSending = true;
    for (let next = outgoing.shift(); next !== undefined; next = outgoing.shift()) {
      await dealer.send(next);
    }
    isSending = false;
  }
  void (async () => {
    for await (const [name, payload] of dealer)
      settle(name.readUInt32LE(), name[4] === 1 ? payload.readUInt32LE() : payload);
  })();
  return { echo, upload, close: () => dealer.close() };
}

const path = servedPath();
if (path !== undefined) {
  const router = new Router(roomy);
  await router.bind(`ipc://${path}`);
  process.send('ready');
  for await (const parts of router) {
    const [, name, payload] = parts;
    if (name[4] === 1) parts[2] = Buffer.from(Uint32Array.of(payload.length).buffer);
    await router.send(parts);
  }
}
