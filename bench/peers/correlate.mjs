// A number per call, for peers that carry messages without calls.

/** `send(id, payload)` sends a request; `settle(id, payload)` takes its answer. */
export function correlated(send) {
  const waiting = new Map();
  let last = 0;
  return {
    settle: (id, payload) => {
      const resolve = waiting.get(id);
      waiting.delete(id);
      resolve(payload);
    },
    echo: (payload) =>
      new Promise((resolve) => {
        last += 1;
        waiting.set(last, resolve);
        send(last, payload);
      }),
  };
}
