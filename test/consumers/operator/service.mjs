// A service that programs of two other users may call: PATH UID UID.
import { listen, service, unary } from 'sidecall';

const [path, ...uids] = process.argv.slice(2);
const Clock = service('Clock', { caller: unary() });
const listener = await listen({
  path,
  mode: 0o666,
  authorize: { uid: uids.map(Number) },
  introspection: true,
});
listener.serve(Clock, { caller: (_request, ctx) => ({ uid: ctx.peer.uid }) });
console.log('listening');
for await (const _ of listener) {
  // sessions are served by the listener
}
