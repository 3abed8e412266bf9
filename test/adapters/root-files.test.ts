// Roots of protobufjs that do not tell the syntax of their files, or have none. Those of real files
// are compared with the descriptors of protoc: test/interop/descriptors.test.ts.
import { expect, it } from 'vitest';
import { listenGrpc } from '../../src/adapters/grpc/main.ts';
import { protobufService } from '../../src/adapters/protobuf.ts';
import { filesOfRoot } from '../../src/adapters/root-files.ts';
import { implement } from '../../src/rpc/serving/implementation.ts';

const number = { type: 'int32', id: 1 };
const optional = { fields: { n: { ...number, options: { proto3_optional: true } } } };
const plain = { fields: { n: number } };
/** Types that have what proto3 does not have, without their syntax as before protobufjs 7.5. */
const older = {
  required: { fields: { n: { ...number, rule: 'required' } } },
  default: { fields: { n: { ...number, options: { default: 7 } } } },
  group: { fields: {}, group: true },
  extensions: { fields: {}, extensions: [[100, 200]] },
  enum: { values: { ONE: 1 } },
  nested: { fields: {}, nested: { Inner: { values: { ONE: 1 } } } },
};

const filesOf = (nested: object) =>
  filesOfRoot(JSON.stringify({ nested: { demo: { nested } } }), () => false);

it.each(Object.entries(older))('a package with a type with %s is of proto2', (_, type) => {
  const [file] = filesOf({ Old: type, Plain: plain });
  expect(file).not.toHaveProperty('syntax');
  expect(file?.package).toBe('demo');
});

it('a package without such a type is of proto3', () => {
  expect(filesOf({ Plain: plain, New: optional })).toMatchObject([{ syntax: 'proto3' }]);
});

it.each(Object.entries(older))('%s beside an optional field of proto3 is refused', (_, type) => {
  const text = /demo\.Old is of proto2, demo\.New of proto3; make it with protobufjs 7\.5 or later/;
  expect(() => filesOf({ Old: type, New: optional })).toThrow(text);
});

it('types that no files could have are refused by listenGrpc(), unless it has no reflection', async () => {
  const a = { edition: 'proto2', fields: { b: { type: 'B', id: 1 } } };
  const b = { fields: { a: { type: 'A', id: 1 } } };
  const methods = { add: { requestType: 'A', responseType: 'B' } };
  const descriptor = { nested: { demo: { nested: { A: a, B: b, Store: { methods } } } } };
  const type = { encode: () => undefined, decode: () => undefined };
  class Store {
    add(): void {}
  }
  const method = { path: '/demo.Store/Add', requestType: 'A', responseType: 'B' };
  Object.assign(Store.prototype.add, method);
  const contract = protobufService(Store as never, { A: type, B: type }, { descriptor });
  const services = [implement(contract, { add: () => undefined } as never)];
  await expect(listenGrpc({ services })).rejects.toMatchObject({
    code: 'ERR_INVALID_ARG_VALUE',
    message: expect.stringMatching(/\.demo\.[AB] and \.demo\.[AB] need each other/) as string,
  });
  await using _listener = await listenGrpc({ services, introspection: false });
});
