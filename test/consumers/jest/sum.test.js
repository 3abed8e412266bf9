// Jest in CommonJS mode loads ESM packages by import().
test('a call', async () => {
  const { service, unary } = await import('sidecall');
  const { createSessionPair } = await import('sidecall/testing');
  const Sum = service('Sum', { add: unary() });
  const pair = createSessionPair();
  pair.far.serve(Sum, { add: ({ a, b }) => a + b });
  expect(await pair.near.client(Sum).add({ a: 1, b: 1 })).toBe(2);
  await pair.close();
});

test('the addon', async () => {
  const { capabilities } = await import('sidecall');
  expect(capabilities().addon).toBe(true);
});
