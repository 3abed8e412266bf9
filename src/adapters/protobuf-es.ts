// SPDX-License-Identifier: MIT
// `sidecall/protobuf-es`: contracts from the services of protobuf-es 2 (@bufbuild/protobuf), which
// Connect 2 uses, too.
import {
  create,
  type DescFile,
  type DescMessage,
  type DescMethod,
  type DescService,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema, MethodOptions_IdempotencyLevel } from '@bufbuild/protobuf/wkt';
import { nodeError } from '../base/misuse.ts';
import type { Codec } from '../rpc/contract/codec.ts';
import type {
  BidiMethod,
  ClientStreamMethod,
  ServerStreamMethod,
  Service,
  UnaryMethod,
} from '../rpc/contract/method-types.ts';
import { contractOf, methodOf } from './protobuf-contract.ts';

type EsMethod<M extends DescMethod> = M extends { methodKind: 'unary' }
  ? UnaryMethod<Out<M['input']>, Out<M['output']>, In<M['input']>, In<M['output']>>
  : M extends { methodKind: 'server_streaming' }
    ? ServerStreamMethod<Out<M['input']>, Out<M['output']>, In<M['input']>, In<M['output']>>
    : M extends { methodKind: 'client_streaming' }
      ? ClientStreamMethod<Out<M['input']>, Out<M['output']>, In<M['input']>, In<M['output']>>
      : BidiMethod<Out<M['input']>, Out<M['output']>, In<M['input']>, In<M['output']>>;
type Out<D extends DescMessage> = MessageShape<D>;
type In<D extends DescMessage> = MessageInitShape<D>;

/** The methods of a service of protobuf-es, typed by its messages. */
export type EsMethods<D extends DescService> = {
  readonly [Name in keyof D['method']]: EsMethod<D['method'][Name]>;
};

/**
 * The codec of one message: for methods of `service()` and for channels. 64-bit integers are
 * `bigint` (unless the field says `jstype = JS_STRING`), enums are those of the generated module.
 * Received bytes are views of the memory of their message.
 * @param schema as `protoc-gen-es` writes it: `QSchema`.
 * @throws {TypeError} `ERR_INVALID_ARG_TYPE` for what is no schema.
 */
export function protobuf<D extends DescMessage>(
  schema: D,
): Codec<MessageShape<D>, MessageInitShape<D>> {
  if ((schema as Partial<DescMessage> | undefined)?.kind !== 'message') {
    throw wrong('protobuf() needs the schema of a message of protobuf-es');
  }
  return {
    name: 'protobuf',
    encode: (message) => toBinary(schema, create(schema, message)),
    decode: (bytes) => fromBinary(schema, bytes), // fields of bytes are views of what was decoded
  };
}

/**
 * The contract of a service of protobuf-es, and so of Connect. Its members are the methods in
 * camelCase; on the wire they are named as in gRPC: `demo.Indexer/AddOne`. Methods that the
 * `.proto` file marks as `NO_SIDE_EFFECTS` or `IDEMPOTENT` are idempotent.
 * @param service as `protoc-gen-es` 2 writes it.
 * @throws {TypeError} `ERR_INVALID_ARG_TYPE` for what is no service; those of protobuf-es 1 are
 * none.
 * @example
 * ```ts
 * import { connect } from 'sidecall';
 * import { protobufService } from 'sidecall/protobuf-es';
 * import { Store as StoreDescriptor } from './gen/store_pb.js';
 *
 * const Store = protobufService(StoreDescriptor);
 * await using session = await connect({ path: '/run/user/1000/store/socket' });
 * console.log((await session.client(Store).put({ name: 'apple', id: 1n })).id);
 * ```
 */
export function protobufService<D extends DescService>(service: D): Service<EsMethods<D>> {
  if ((service as Partial<DescService> | undefined)?.kind !== 'service') {
    throw wrong('protobufService() needs a service of protobuf-es 2, as protoc-gen-es writes it');
  }
  const found = service.methods.map((method) => ({
    member: method.localName,
    wireName: `${service.typeName}/${method.name}`,
    method: methodOf(
      streamsOf(method),
      { request: protobuf(method.input), response: protobuf(method.output) },
      { idempotent: method.idempotency !== MethodOptions_IdempotencyLevel.IDEMPOTENCY_UNKNOWN },
    ),
  }));
  const fileDescriptors = (): Uint8Array[] => filesOf(service.file);
  return contractOf<EsMethods<D>>(service.typeName, found, { fileDescriptors });
}

function streamsOf({ methodKind }: DescMethod): {
  requestStream: boolean;
  responseStream: boolean;
} {
  return {
    requestStream: methodKind === 'client_streaming' || methodKind === 'bidi_streaming',
    responseStream: methodKind === 'server_streaming' || methodKind === 'bidi_streaming',
  };
}

/** A file and all that it imports. */
function filesOf(file: DescFile): Uint8Array[] {
  const files = new Set([file]); // a set is iterated with what is added meanwhile
  for (const each of files) for (const imported of each.dependencies) files.add(imported);
  return [...files].map(({ proto }) => toBinary(FileDescriptorProtoSchema, proto));
}

function wrong(text: string): TypeError {
  return nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', text);
}
