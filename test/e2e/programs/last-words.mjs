// A helper that, when it is asked, publishes messages to its parent and kills itself behind them.
import { bytes, parent, service, unary } from '../../../dist/index.js';

const LastWords = service('LastWords', { speak: unary() });
const session = await parent();
session.serve(LastWords, {
  speak: ({ messages }) => {
    const channel = session.openChannel(bytes, { name: 'words' });
    void (async () => {
      for (let at = 0; at < messages; at += 1) {
        const message = Buffer.alloc(8);
        message.writeUInt32LE(at);
        await channel.send(message);
      }
      // The ring has taken all of them, and the turn that follows has published them. What a socket
      // has not taken is still in this process: the answer follows what the parent has read.
      while (session.stats().queuedBytes > 0) await new Promise((done) => setImmediate(done));
      if (session.lane === 'socket') await session.ping();
      else await new Promise((done) => setImmediate(done));
      process.kill(process.pid, 'SIGKILL');
    })();
    return {};
  },
});
