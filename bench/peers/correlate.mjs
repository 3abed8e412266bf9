// Calls for peers that carry messages without calls: a number for each, and a bound on messages
// under way.

/** `send(id, payload, kind)` sends a request; `settle(id, answer)` takes its answer. */
export function correlated(send) {
  const waiting = new Map();
  let last = 0;
  const call = (payload, kind) =>
    new Promise((resolve) => {
      last += 1;
      waiting.set(last, resolve);
      send(last, payload, kind);
    });
  return {
    settle: (id, answer) => {
      const resolve = waiting.get(id);
      waiting.delete(id);
      resolve(answer);
    },
    echo: (payload) => call(payload, 'echo'),
    /** The answer is the number of bytes that the server has received. */
    upload: (payload) => call(payload, 'upload'),
  };
}

const messagesMax = 16;

/**
 * A stream for a peer that bounds none of its own: each message is a call with a short answer, and
 * at most 16 are under way. Returns their number.
 */
export async function pourCalls(upload, payload, seconds) {
  const until = performance.now() + seconds * 1000;
  let messages = 0;
  const sender = async () => {
    while (performance.now() < until) {
      messages += 1;
      if ((await upload(payload)) !== payload.length) throw new Error('bytes were lost');
    }
  };
  await Promise.all(Array.from({ length: messagesMax }, sender));
  return messages;
}
