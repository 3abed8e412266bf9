// A chat room: each message goes to all other users. The metadata of the call has the name of the
// user, the kernel reports the uid.
import { listen, socketPath } from 'sidecall';
import { Chat } from './contract.mjs';

const [path = socketPath('chat')] = process.argv.slice(2);
const users = new Map();

/** Messages that wait for one user; beyond 100 the oldest is dropped. */
class Inbox {
  #waiting = [];
  #wake = () => undefined;
  #isClosed = false;

  push(message) {
    this.#waiting.push(message);
    if (this.#waiting.length > 100) this.#waiting.shift();
    this.#wake();
  }

  close() {
    this.#isClosed = true;
    this.#wake();
  }

  async *[Symbol.asyncIterator]() {
    while (!this.#isClosed || this.#waiting.length > 0) {
      if (this.#waiting.length > 0) yield this.#waiting.shift();
      else await new Promise((resolve) => (this.#wake = resolve));
    }
  }
}

function tell(message) {
  for (const [name, inbox] of users) if (name !== message.from) inbox.push(message);
}

const listener = await listen({ path });
listener.serve(Chat, {
  async *join(texts, ctx) {
    const from = ctx.metadata.name;
    const inbox = new Inbox();
    users.set(from, inbox);
    ctx.signal.addEventListener('abort', () => inbox.close());
    tell({ from, text: `joined as uid ${ctx.peer.uid}` });
    void (async () => {
      for await (const text of texts) tell({ from, text });
      inbox.close();
    })().catch(() => inbox.close());
    try {
      yield* inbox;
    } finally {
      users.delete(from);
      tell({ from, text: 'left' });
    }
  },
});
// Calls under way are answered, and the path is removed; a second signal ends at once.
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => listener.close());
console.log(`listening at ${listener.path}`);
