// The service that the programs serve and call, over the built package.
import { bytes, notification, service, unary } from '../../../dist/index.js';

export const Demo = service('Demo', {
  add: unary(),
  echo: unary({ request: bytes, response: bytes }),
  whoami: unary(),
  hang: unary(),
  block: notification(),
  exit: notification(),
  log: notification(),
  callBack: unary(),
});

export function say(value) {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

export const handlers = {
  add: ({ a, b }) => ({ sum: a + b }),
  echo: (payload) => payload,
  whoami: (_request, { peer }) => ({ peer, pid: process.pid, env: { ...process.env } }),
  hang: (_request, { signal }) =>
    new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason));
    }),
  block: () => {
    for (;;);
  },
  exit: (code) => process.exit(code),
  log: () => undefined,
  callBack: () => undefined,
};
