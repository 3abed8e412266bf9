// One method of each kind, and the handlers that serve it at every door.
import {
  bidi,
  bytes,
  clientStream,
  notification,
  RpcError,
  serverStream,
  service,
  unary,
} from '../../../dist/index.js';

export const Everything = service('test.Everything', {
  add: unary(),
  bytes: unary({ request: bytes, response: bytes }),
  borrowed: unary({ request: bytes.borrowed, response: bytes.borrowed }),
  who: unary(),
  fail: unary(),
  wait: unary(),
  told: unary(),
  tell: notification(),
  count: serverStream(),
  sum: clientStream(),
  shout: bidi(),
  endless: serverStream(),
});

export function handlers() {
  const told = [];
  const started = [];
  const ended = [];
  const untilAborted = (signal) =>
    new Promise((resolve) => {
      if (signal.aborted) resolve(signal.reason);
      signal.addEventListener('abort', () => resolve(signal.reason));
    });
  return {
    add: ({ a, b }, ctx) => {
      ctx.sendHeaders({ early: 'yes', 'early-bin': new Uint8Array([1, 2]) });
      ctx.trailers = { late: String(ctx.metadata.token) };
      return { sum: a + b };
    },
    bytes: (request) => request,
    borrowed: (request) => request,
    who: (_, { peer, deadline }) => ({ origin: peer.origin, hasDeadline: deadline !== undefined }),
    fail: (status) => {
      if (status === undefined) throw new Error('a fault of ours');
      throw new RpcError(status, `said ${status}, ä€`, {
        details: { status },
        metadata: { hint: 'two' },
      });
    },
    wait: async (name, { signal }) => {
      started.push(name);
      await untilAborted(signal);
      ended.push(name);
      throw new RpcError('cancelled', 'given up');
    },
    told: () => ({ told, started, ended }),
    tell: (word) => void told.push(word),
    async *count(to) {
      for (let at = 0; at < to; at += 1) yield at;
    },
    async sum(numbers) {
      let sum = 0;
      for await (const number of numbers) sum += number;
      return sum;
    },
    async *shout(words) {
      for await (const word of words) yield word.toUpperCase();
    },
    async *endless(name, { signal }) {
      started.push(name);
      try {
        for (let at = 0; !signal.aborted; at += 1) yield at;
      } finally {
        ended.push(name);
      }
    },
  };
}
