// The peer of a session that closes, as a process: a helper, or (with a path) a client of a
// listener. It enters the requested state; the test then stops it, kills it, or lets it run.
import {
  connect,
  json,
  notification,
  parent,
  serverStream,
  service,
  unary,
} from '../../../dist/index.js';

const Victim = service('Victim', { hang: unary(), note: notification(), download: serverStream() });
const Closing = service('Closing', { enter: unary(), hang: unary(), note: notification() });

const [settings] = process.argv.slice(2);
const { path, lane } = JSON.parse(settings);
const session = path === undefined ? await parent({ lane }) : await connect({ path, lane });

function flood() {
  const { note } = session.client(Victim);
  const more = () => {
    for (let at = 0; at < 100; at += 1) note('x'.repeat(200)).catch(() => undefined);
    setImmediate(more);
  };
  more();
}

const states = {
  idle: () => undefined,
  busy: () => {
    setImmediate(() => {
      for (;;);
    });
  },
  calling: () => {
    for (let at = 0; at < 100; at += 1)
      session
        .client(Victim)
        .hang()
        .catch(() => undefined);
  },
  flooding: flood,
  // Records that are in shared memory, unread, when this process ends.
  burst: () => {
    const { note } = session.client(Victim);
    for (let at = 0; at < 3000; at += 1) note('x'.repeat(200)).catch(() => undefined);
  },
  leaving: () => {
    setImmediate(() => void session.close({ deadlineMs: 600_000 }));
  },
  streaming: () => {
    void (async () => {
      for await (const _ of session.client(Victim).download());
    })().catch(() => undefined);
  },
  channels: () => {
    for (let at = 0; at < 20; at += 1) {
      const channel = session.openChannel(json(), { name: 'open' });
      channel.closed.catch(() => undefined);
      channel.send(at).catch(() => undefined);
      session
        .openDuplex({ name: 'open' })
        .on('error', () => undefined)
        .write('x');
    }
  },
};

session.serve(Closing, {
  enter: (state) => states[state](),
  hang: () => new Promise(() => undefined),
  note: () => undefined,
});
