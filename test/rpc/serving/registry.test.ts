import { expect, it } from 'vitest';
import { statuses } from '../../../src/base/error-codes.ts';
import { service, unary } from '../../../src/rpc/contract/service.ts';
import { implement } from '../../../src/rpc/serving/implementation.ts';
import { ReflectionService } from '../../../src/rpc/serving/reflection.ts';
import { Registry } from '../../../src/rpc/serving/registry.ts';
import { createSessionPair } from '../../../src/testing/session-pair.ts';

const Store = service('Store', {
  read: unary<string, string>(),
  write: unary<string, void>(),
  wipe: unary<void, void>(),
});

it('a contract can be served in part: the rest is unimplemented, and is not listed', async () => {
  await using pair = createSessionPair({ far: { introspection: true } });
  pair.far.serve(Store, { read: (key) => `value of ${key}` }, { partial: true });
  const store = pair.near.client(Store);
  expect(await store.read('a')).toBe('value of a');
  await expect(store.write('b')).rejects.toMatchObject({ status: 'unimplemented' });
  const { services } = await pair.near.client(ReflectionService).list();
  expect(services).toMatchObject([{ name: 'Store', methods: [{ name: 'Store.read' }] }]);
  pair.far.unserve(Store);
  await expect(store.read('a')).rejects.toMatchObject({ status: 'unimplemented' });
  pair.far.serve(Store, { read: () => 'all', write: () => undefined, wipe: () => undefined });
  expect(await store.read('a')).toBe('all');
});

it('the option `services` takes a part, too', () => {
  const registry = new Registry();
  registry.addAll([implement(Store, { write: () => undefined }, { partial: true })]);
  expect(registry.find('Store.write')).toBeDefined();
  expect(registry.find('Store.read')).toBeUndefined();
});

it.each<[string, object, object | undefined, RegExp]>([
  ['a handler is missing', { read: () => '' }, undefined, /no handler 'write'; \{ partial: true/],
  ['a handler is missing, said twice', { read: () => '' }, { partial: false }, /no handler/],
  ['there is none at all', {}, { partial: true }, /there is no handler/],
  ['one is no function', { read: 'text' }, { partial: true }, /no handler 'read'/],
  ['partial is a text', { read: () => '' }, { partial: 'yes' }, /partial must be true or false/],
])('serve() refuses: %s', (_what, handlers, options, words) => {
  const registry = new Registry();
  expect(() => registry.add(Store, handlers, options as object)).toThrow(words);
  expect(registry.find('Store.read')).toBeUndefined();
  expect(registry.services).toEqual([]);
});

it('serve() takes methods of classes, and none of Object.prototype', () => {
  const names = ['constructor', 'toString', 'valueOf', 'hasOwnProperty', '__proto__', 'then'];
  class Base {
    toString(): string {
      return 'of a class';
    }
  }
  const bare = Object.assign(Object.create(null), { valueOf: () => 'of an object' });
  for (const name of names) {
    const Odd = service('Odd', { [name]: unary<void, string>() });
    const method = Object.keys(Odd.methods)[0];
    if (method === undefined) continue; // `__proto__: …` made none
    for (const handlers of [{}, new (class extends Base {})(), bare, Object.create(bare)]) {
      const isOwn = (handlers instanceof Base && name === 'toString') || false;
      const isBare = !(handlers instanceof Object) && name === 'valueOf';
      const isClass = handlers instanceof Base && name === 'constructor';
      const add = (): unknown => new Registry().add(Odd, handlers as never);
      if (isOwn || isBare || isClass) expect(add, name).not.toThrow();
      else expect(add, name).toThrow(`no handler '${method}'`);
    }
  }
});

it('the names of the statuses are in the order of their numbers', () => {
  expect(statuses.indexOf('not_found')).toBe(5);
  expect(statuses).toHaveLength(17);
});
