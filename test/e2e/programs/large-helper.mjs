// Answers a message of any size with its length, or with itself.
import { bytes, parent, service, unary } from '../../../dist/index.js';

const Large = service('Large', {
  collect: unary(),
  echo: unary({ request: bytes, response: bytes }),
});
const session = await parent({ limits: { receiveMaxBytes: 512 * 1024 * 1024 } });
session.serve(Large, { collect: () => globalThis.gc(), echo: (message) => message });
