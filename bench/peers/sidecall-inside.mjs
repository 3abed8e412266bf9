// sidecall with both ends in this process, over a ring: beside `ring-floor`, which has no other.
import { bytes, connect, listen, service, unary } from '../../dist/index.js';

const Echo = service('Echo', { echo: unary({ request: bytes, response: bytes }) });

export async function open() {
  const listener = await listen({});
  listener.serve(Echo, { echo: (message) => message });
  const session = await connect({ path: listener.path, lane: 'ring' });
  const { echo } = session.client(Echo);
  return {
    lane: session.lane,
    serverPids: [],
    echo: (message) => echo(message),
    close: async () => {
      await session.close();
      await listener.close();
    },
  };
}
