/**
 * @jest-environment jsdom
 * @jest-environment-options {"customExportConditions": ["node", "node-addons"]}
 */
test('bytes and signals of a DOM', async () => {
  expect(typeof document).toBe('object');
  const { bytes, service, unary } = await import('sidecall');
  const { createSessionPair } = await import('sidecall/testing');
  const Store = service('Store', {
    raw: unary({ request: bytes, response: bytes }),
    size: unary(),
    hang: unary(),
  });
  const pair = createSessionPair();
  pair.far.serve(Store, {
    raw: (message) => message,
    size: ({ data }, { metadata }) => data.length + metadata['x-bin'].length,
    hang: () => new Promise(() => undefined),
  });
  const store = pair.near.client(Store);
  for (const given of [new Uint8Array([1, 2]), Buffer.from([1, 2])]) {
    expect([...(await store.raw(given))]).toEqual([1, 2]);
    const metadata = { 'x-bin': given };
    expect(await store.size({ data: given }, { metadata })).toBe(4);
  }
  const stop = new AbortController();
  const call = store.hang(undefined, { signal: stop.signal });
  stop.abort('enough');
  await expect(call).rejects.toBe('enough');
  await pair.close();
});
