// The contract of streamer.mjs.
import {
  bidi,
  bytes,
  clientStream,
  notification,
  serverStream,
  service,
  unary,
} from '../../../dist/index.js';

export const Flow = service('Flow', {
  count: serverStream(),
  download: serverStream({ response: bytes }),
  swallow: clientStream({ request: bytes }),
  echo: bidi({ request: bytes, response: bytes }),
  offered: unary(),
  busy: unary(),
  lastBusy: unary(),
  add: unary(),
  block: notification(),
  exit: notification(),
});
