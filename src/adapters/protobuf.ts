// SPDX-License-Identifier: MIT
// `sidecall/protobuf`: messages and services of protobufjs (7 or later, which the application
// brings; static modules need 8.6.6).

import { Buffer } from 'node:buffer';
import protobufjs from 'protobufjs/minimal.js';
import { isBytes } from '../base/brands.ts';
import { checkKeys, checkObject, nodeError } from '../base/misuse.ts';
import type { Codec } from '../rpc/contract/codec.ts';
import type { Service, UntypedMethod } from '../rpc/contract/method-types.ts';
import { CheckedWriter, encodeChecked } from './checked-writer.ts';
import { camelCase, contractOf, type FoundMethod, methodOf } from './protobuf-contract.ts';
import type { StaticMethod, StaticMethods, StaticService } from './protobuf-types.ts';

export type { StaticMethods, StaticService } from './protobuf-types.ts';

/** A message type of protobufjs: of a static module, or of reflection. */
export interface MessageType<T, Input = T> {
  encode(message: Input, writer?: protobufjs.Writer): protobufjs.Writer;
  decode(reader: protobufjs.Reader | Uint8Array, length?: number): T;
  /** A message as a plain object, with the defaults of what was not sent. */
  toObject?(message: never, options?: { defaults?: boolean }): Record<string, unknown>;
  /**
   * The fault of a message, or null. Static modules have it unless they were made with
   * `--no-verify`.
   */
  verify?(message: never): string | null;
}

/** A service of reflection: `root.lookupService('demo.Indexer')`. */
export interface ReflectedService {
  readonly fullName: string;
  readonly methodsArray: readonly ReflectedMethod[];
  readonly root: { toJSON(): unknown };
  resolveAll(): unknown;
}

/** A method of a {@link ReflectedService}. */
export interface ReflectedMethod {
  readonly name: string;
  readonly requestStream?: boolean | undefined;
  readonly responseStream?: boolean | undefined;
  readonly resolvedRequestType: MessageType<Untyped> | null;
  readonly resolvedResponseType: MessageType<Untyped> | null;
}

// biome-ignore lint/suspicious/noExplicitAny: reflection knows no types at compile time
type Untyped = any;

/** Options of {@link protobufService} for static modules. */
export interface ProtobufServiceOptions {
  /**
   * The messages as `pbjs -t json` writes them, for tools: `sidecall call`, and the reflection of
   * gRPC. `sidecall gen` gives it. Default: tools learn the names of methods and no more.
   */
  readonly descriptor?: object | undefined;
}

/** A service that reflection describes: methods of any kind, and untyped values. */
export type UntypedMethods = { readonly [name: string]: UntypedMethod };

/**
 * The reader of protobufjs, with a copy for each `bytes` field, since the memory of a message is
 * reused. Longer texts are read by the decoder of Node.
 */
class CopyingReader extends protobufjs.BufferReader {
  override raw(start: number, end: number): Buffer {
    return Buffer.from(this.buf.subarray(start, end));
  }

  /** Before 8.2.0 protobufjs reads fields without `raw()`. */
  override bytes(): Buffer {
    const field = super.bytes();
    return field.buffer === this.buf.buffer ? Buffer.from(field) : (field as Buffer);
  }
}

/**
 * The codec of one message type: for methods of `service()` and for channels. A value is verified
 * before it is encoded, where the type can (`verify()`): a `bigint`, or the name of an enum value,
 * is refused with `ERR_SIDECALL_ENCODE` instead of being sent as 0. So is what its field does not
 * hold: a number beyond its range, half of a surrogate pair, a `Date` for a message. Nesting is
 * refused beyond protobufjs's limit (100), and a message's length by `receiveMaxBytes`.
 * @param type of a static module (`demo.Q`) or of reflection (`root.lookupType('demo.Q')`).
 * @throws {TypeError} `ERR_INVALID_ARG_TYPE` for what is no message type.
 */
export function protobuf<T, Input = T>(type: MessageType<T, Input>): Codec<T, Input> {
  if (typeof type?.encode !== 'function' || typeof type.decode !== 'function') {
    const text = 'protobuf() needs a message type of protobufjs, with encode() and decode()';
    throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', text);
  }
  let takesOurs: boolean | undefined;
  return {
    name: 'protobuf',
    reusesBytes: true,
    copiesBytes: true,
    encode: (message) => {
      const wrong = type.verify?.(message as never);
      if (typeof wrong === 'string') throw new TypeError(wrong);
      return encode(type, message);
    },
    decode: (bytes) => {
      takesOurs ??= takesOurReader(type);
      const own = takesOurs
        ? new CopyingReader(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length))
        : Buffer.from(bytes);
      return type.decode(own);
    },
    plain: (message) => {
      if (type.toObject === undefined) {
        throw new TypeError('the message type has no toObject(): make it without --no-convert');
      }
      return withNumbers(type.toObject(message as never, { defaults: true }));
    },
  };
}

/**
 * 64-bit numbers as numbers: the objects that protobufjs may give for them have methods, which
 * plain data has not.
 * @throws {RangeError} for one that a number does not hold exactly.
 */
function withNumbers(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || isBytes(value)) return value;
  if (Array.isArray(value)) return value.map(withNumbers);
  const { low, high, unsigned, toNumber } = value as Partial<LongLike>;
  if (typeof toNumber === 'function' && low !== undefined && high !== undefined) {
    const number = (high + (unsigned === true && high < 0 ? 2 ** 32 : 0)) * 2 ** 32 + (low >>> 0);
    if (Number.isSafeInteger(number)) return number;
    throw new RangeError(`the 64-bit number ${String(value)} is beyond what a number holds`);
  }
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, withNumbers(each)]));
}

interface LongLike {
  readonly low: number;
  readonly high: number;
  readonly unsigned: boolean;
  readonly toNumber: () => number;
}

/**
 * False for a type of another copy of protobufjs (two in one tree are normal),
 * which refuses our reader.
 */
function takesOurReader(type: MessageType<unknown, never>): boolean {
  try {
    type.decode(new CopyingReader(Buffer.alloc(0)));
    return true;
  } catch (error) {
    return (error as Error).message !== 'illegal buffer';
  }
}

// One writer for all messages, and no copy of what it wrote: measured at 1 kB, a third of the time
// that a writer for each and `finish()` take.
let spare: CheckedWriter | undefined;
const keptMaxBytes = 64 * 1024;

function encode<Input>(type: MessageType<unknown, Input>, message: Input): Uint8Array {
  // The spare writer is taken out while it is in use, since a getter of the message may encode
  // another one. Where the getter throws, the half-written writer is not kept.
  const writer = (spare?.reset() as CheckedWriter | undefined) ?? new CheckedWriter();
  spare = undefined;
  const written = encodeChecked(type, message, writer);
  // Its memory grows with the longest message: that is not kept.
  if (written.len > keptMaxBytes) return written.finish();
  spare = writer;
  return written.finish(true);
}

/**
 * The contract of a protobuf service of reflection. Its members are the methods in camelCase; on
 * the wire they are named as in gRPC: `demo.Indexer/AddOne`.
 * @param service a service of protobufjs. Load `.proto` files at run time only where you trust
 * their authors.
 * @throws {TypeError} where a message type cannot be found, or for what is no service.
 */
export function protobufService(service: ReflectedService): Service<UntypedMethods>;
/**
 * The contract of a service of a static module, as `pbjs` writes it.
 * @param service the class of the service.
 * @param space the whole module (`import * as proto from './proto.js'`), or the namespace of the
 * service's package (`demo`), if all of its messages are in that.
 * @throws {TypeError} where a message type cannot be found, or for what is no service.
 */
export function protobufService<S extends StaticService, Space>(
  service: S,
  space: Space,
  options?: ProtobufServiceOptions,
): Service<StaticMethods<S, Space>>;
export function protobufService(
  service: ReflectedService | StaticService,
  space?: unknown,
  options: ProtobufServiceOptions = {},
  // biome-ignore lint/suspicious/noExplicitAny: the overloads say of what
): Service<any> {
  checkKeys('protobufService()', options, ['descriptor']);
  checkObject('descriptor', options.descriptor);
  if (typeof service === 'function') return fromStatic(service, space, options.descriptor);
  if (Array.isArray((service as Partial<ReflectedService> | undefined)?.methodsArray)) {
    return fromReflection(service as ReflectedService);
  }
  throw wrong('protobufService() needs a service of protobufjs');
}

function fromReflection(service: ReflectedService): Service<UntypedMethods> {
  service.resolveAll();
  const name = service.fullName.replace(/^\./, '');
  const found = service.methodsArray.map((method): FoundMethod => {
    const { resolvedRequestType: request, resolvedResponseType: response } = method;
    if (request === null || response === null) {
      throw wrong(`${name}/${method.name}: a message type is not resolved`);
    }
    return {
      member: camelCase(method.name),
      wireName: `${name}/${method.name}`,
      method: methodOf(method, { request: protobuf(request), response: protobuf(response) }),
    };
  });
  return contractOf<UntypedMethods>(name, found, { descriptor: () => service.root.toJSON() });
}

function fromStatic(
  service: StaticService,
  space: unknown,
  descriptor: object | undefined,
): Service<UntypedMethods> {
  const found: FoundMethod[] = [];
  let name = '';
  for (const member of Object.getOwnPropertyNames(service.prototype)) {
    const method: unknown = service.prototype[member];
    if (!isStaticMethod(method)) continue;
    const wireName = method.path.slice(1);
    name = wireName.slice(0, wireName.lastIndexOf('/'));
    const request = lookUp(space, method.requestType, wireName);
    const response = lookUp(space, method.responseType, wireName);
    found.push({
      member: camelCase(member),
      wireName,
      method: methodOf(method, { request: protobuf(request), response: protobuf(response) }),
    });
  }
  if (found.length === 0) {
    throw wrong('protobufService() found no methods; static modules need pbjs of protobufjs 8.6');
  }
  return contractOf<UntypedMethods>(name, found, {
    descriptor: descriptor && (() => descriptor),
  });
}

function isStaticMethod(value: unknown): value is StaticMethod {
  return typeof value === 'function' && typeof (value as Partial<StaticMethod>).path === 'string';
}

/**
 * A message type by its name as the `.proto` file has it, looked up from the service's package
 * outwards, as protobuf does. `space`: the whole module, or the namespace of that package.
 */
function lookUp(space: unknown, name: string, wireName: string): MessageType<Untyped> {
  const scope = wireName.slice(0, wireName.lastIndexOf('/')).split('.').slice(0, -1);
  const parts = name.replace(/^\./, '').split('.');
  const isAbsolute = name.startsWith('.');
  for (let length = isAbsolute ? 0 : scope.length; length >= 0; length -= 1) {
    const path = [...scope.slice(0, length), ...parts];
    const isOfPackage = scope.every((part, at) => path[at] === part);
    const found = member(space, path) ?? (isOfPackage && member(space, path.slice(scope.length)));
    if (isMessageType(found)) return found;
  }
  const remedy = "give the whole module: import * as proto from './proto.js'";
  throw wrong(`${wireName}: there is no message type '${name}' in what was given; ${remedy}`);
}

function member(space: unknown, path: readonly string[]): unknown {
  let found: unknown = space;
  for (const part of path) {
    const isSpace = (typeof found === 'object' || typeof found === 'function') && found !== null;
    found = isSpace ? (found as Record<string, unknown>)[part] : undefined;
  }
  return found;
}

function isMessageType(found: unknown): found is MessageType<Untyped> {
  return typeof (found as Partial<MessageType<unknown>> | undefined)?.encode === 'function';
}

function wrong(text: string): TypeError {
  return nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', text);
}
