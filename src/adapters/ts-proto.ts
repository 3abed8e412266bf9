// SPDX-License-Identifier: MIT
// `sidecall/ts-proto`: contracts from the definitions that ts-proto writes with
// `outputServices=generic-definitions`. It needs no library: the definitions encode and decode.
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

/** The functions of a message of ts-proto, version 1 or 2. */
export interface TsProtoMessage<T> {
  // biome-ignore lint/suspicious/noExplicitAny: messages of any types
  encode(message: T, writer?: any): { finish(): Uint8Array };
  // biome-ignore lint/suspicious/noExplicitAny: as above
  decode(input: any, length?: number): T;
  /** Left out by `outputPartialMethods=false`. */
  // biome-ignore lint/suspicious/noExplicitAny: as above
  fromPartial?(message: any): T;
}

/** A method of a {@link TsProtoService}. */
export interface TsProtoMethod {
  readonly name: string;
  // biome-ignore lint/suspicious/noExplicitAny: messages of any types
  readonly requestType: TsProtoMessage<any>;
  readonly requestStream: boolean;
  // biome-ignore lint/suspicious/noExplicitAny: as above
  readonly responseType: TsProtoMessage<any>;
  readonly responseStream: boolean;
  readonly options?: { readonly idempotencyLevel?: string | undefined } | undefined;
}

/** A service as ts-proto writes it: `IndexerDefinition`. */
export interface TsProtoService {
  readonly fullName: string;
  readonly methods: { readonly [name: string]: TsProtoMethod };
}

type Decoded<Type> = Type extends { decode(...args: never[]): infer T } ? T : never;
/** With `fromPartial()` fields may be left out. */
type Encoded<Type> = Type extends { fromPartial: unknown }
  ? DeepPartial<Decoded<Type>>
  : Decoded<Type>;
type DeepPartial<T> = T extends Uint8Array | Date | bigint | string | number | boolean | undefined
  ? T
  : T extends readonly (infer U)[]
    ? readonly DeepPartial<U>[]
    : { readonly [Name in keyof T]?: DeepPartial<T[Name]> | undefined };

type MethodOf<
  M extends TsProtoMethod,
  Req = M['requestType'],
  Res = M['responseType'],
> = M['requestStream'] extends true
  ? M['responseStream'] extends true
    ? BidiMethod<Decoded<Req>, Decoded<Res>, Encoded<Req>, Encoded<Res>>
    : ClientStreamMethod<Decoded<Req>, Decoded<Res>, Encoded<Req>, Encoded<Res>>
  : M['responseStream'] extends true
    ? ServerStreamMethod<Decoded<Req>, Decoded<Res>, Encoded<Req>, Encoded<Res>>
    : UnaryMethod<Decoded<Req>, Decoded<Res>, Encoded<Req>, Encoded<Res>>;

/** The methods of a definition of ts-proto, typed by its messages. */
export type TsProtoMethods<S extends TsProtoService> = {
  readonly [Name in keyof S['methods']]: MethodOf<S['methods'][Name]>;
};

/**
 * The codec of one message: for methods of `service()` and for channels. 64-bit integers are what
 * ts-proto was told to make of them: numbers, of which those beyond 2⁵³ are refused, or
 * `bigint`, `Long` or texts by its option `forceLong`. Received bytes are views
 * of the memory of their message.
 * @throws {TypeError} `ERR_INVALID_ARG_TYPE` for what is no message of ts-proto.
 */
// biome-ignore lint/suspicious/noExplicitAny: a message of any type
export function protobuf<Type extends TsProtoMessage<any>>(
  type: Type,
): Codec<Decoded<Type>, Encoded<Type>> {
  if (typeof type?.encode !== 'function' || typeof type.decode !== 'function') {
    throw wrong('protobuf() needs a message of ts-proto, with encode() and decode()');
  }
  const message = type as unknown as TsProtoMessage<Decoded<Type>>;
  return {
    name: 'protobuf',
    encode: (value) =>
      message.encode(message.fromPartial?.(value) ?? (value as Decoded<Type>)).finish(),
    decode: (bytes) => message.decode(bytes), // fields of bytes are views of what was decoded
  };
}

/**
 * The contract of a service of ts-proto. Its members are those of the definition; on the wire
 * methods are named as in gRPC: `demo.Indexer/AddOne`.
 * @param service as ts-proto writes it with `outputServices=generic-definitions`.
 * @throws {TypeError} `ERR_INVALID_ARG_TYPE` for what is no such definition.
 * @example
 * ```ts
 * import { connect } from 'sidecall';
 * import { protobufService } from 'sidecall/ts-proto';
 * import { StoreDefinition } from './gen/store.js';
 *
 * const Store = protobufService(StoreDefinition);
 * await using session = await connect({ path: '/run/user/1000/store/socket' });
 * console.log((await session.client(Store).put({ name: 'apple', id: 1n })).id);
 * ```
 */
export function protobufService<const S extends TsProtoService>(
  service: S,
): Service<TsProtoMethods<S>> {
  if (typeof service?.fullName !== 'string' || typeof service.methods !== 'object') {
    throw wrong(
      'protobufService() needs a definition of ts-proto, made with outputServices=generic-definitions',
    );
  }
  const { fullName } = service;
  const found = Object.entries(service.methods).map(([member, method]) => {
    const level = method.options?.idempotencyLevel;
    return {
      member,
      wireName: `${fullName}/${method.name}`,
      method: methodOf(
        method,
        { request: protobuf(method.requestType), response: protobuf(method.responseType) },
        { idempotent: level !== undefined && level !== 'IDEMPOTENCY_UNKNOWN' },
      ),
    };
  });
  return contractOf<TsProtoMethods<S>>(fullName, found, {});
}

function wrong(text: string): TypeError {
  return nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', text);
}
