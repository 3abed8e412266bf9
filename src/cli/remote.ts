// SPDX-License-Identifier: MIT
// Questions to a program that listens at a path: its identity, its services, and its
// answers.

import { Buffer } from 'node:buffer';
import { lstatSync } from 'node:fs';
import type Protobufjs from 'protobufjs';
import { didYouMean } from '../base/closest.ts';
import { errorText } from '../base/error-text.ts';
import { RpcError, SidecallError } from '../base/errors.ts';
import type { OnEvent } from '../base/events.ts';
import type { Peer } from '../base/peer.ts';
import { connect } from '../rendezvous/connect.ts';
import type { Codec } from '../rpc/contract/codec.ts';
import { json } from '../rpc/contract/json.ts';
import type { Method, MethodKind, Methods, Service } from '../rpc/contract/method-types.ts';
import { bidi, clientStream, notification, serverStream, unary } from '../rpc/contract/service.ts';
import { ReflectionService, type ServiceDescription } from '../rpc/serving/reflection.ts';
import type { Session } from '../rpc/session/session.ts';
import type { Requests } from './requests.ts';

/** The report of `sidecall doctor PATH --json`. */
export interface PathReport {
  /**
   * `live`: a listener that the rules accept answers. `dead`: a socket without a listener.
   * `absent`: there is no file. `forbidden`: a directory on the way does not let this user look.
   * `foreign`: the listener runs under another user, or the path is not safe. `failed`: another
   * failure, see `reason`.
   */
  readonly verdict: 'live' | 'dead' | 'absent' | 'forbidden' | 'foreign' | 'failed';
  readonly reason: string | undefined;
  readonly file: { readonly type: string; readonly mode: string; readonly uid: number } | undefined;
  readonly listener: Pick<Peer, 'origin' | 'pid' | 'uid' | 'gid'> | undefined;
  readonly lane: string | undefined;
  readonly laneReason: string | undefined;
  readonly pingMs: number | undefined;
}

const timeoutMs = 3_000;
const unknown = { listener: undefined, lane: undefined, laneReason: undefined, pingMs: undefined };

/** A listener, and what is demanded of it. */
export interface Place {
  readonly path: string;
  /** Default: our own effective uid. */
  readonly uid?: number | undefined;
  /** The permission bits that the socket file must have, exactly. Default: any safe ones. */
  readonly mode?: string | undefined;
}

function connectTo({ path, uid, mode }: Place, onEvent?: OnEvent): Promise<Session> {
  const expect = { uid, modes: mode === undefined ? undefined : [mode] };
  return connect({ path, expect, timeoutMs, onEvent });
}

/** Never throws: what fails is part of the report. */
export async function examinePath(place: Place): Promise<PathReport> {
  const found = fileAt(place.path);
  if ('verdict' in found) return { ...found, file: undefined, ...unknown };
  const { file } = found;
  try {
    await using session = await connectTo(place);
    const { origin, pid, uid, gid } = session.peer;
    const { lane, laneReason } = session;
    const pingMs = await session.ping({ timeoutMs }).catch(() => undefined);
    const listener = { origin, pid, uid, gid };
    return { verdict: 'live', reason: undefined, file, listener, lane, laneReason, pingMs };
  } catch (error) {
    return { verdict: verdictOn(error), reason: errorText(error), file, ...unknown };
  }
}

type Found =
  | { readonly file: PathReport['file'] }
  | { readonly verdict: 'absent' | 'forbidden' | 'failed'; readonly reason: string };

function fileAt(path: string): Found {
  try {
    const status = lstatSync(path);
    const type = status.isSocket() ? 'socket' : status.isSymbolicLink() ? 'link' : 'other';
    const mode = (status.mode & 0o7777).toString(8).padStart(4, '0');
    return { file: { type, mode, uid: status.uid } };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') {
      return { verdict: 'absent', reason: `there is no file (${code})` };
    }
    if (code === 'EACCES' || code === 'EPERM') {
      const reason = `a directory on the way does not let uid ${process.geteuid?.()} look (${code})`;
      return { verdict: 'forbidden', reason };
    }
    return { verdict: 'failed', reason: errorText(error) };
  }
}

function verdictOn(error: unknown): PathReport['verdict'] {
  if (!SidecallError.is(error)) return 'failed';
  if (error.code === 'ERR_SIDECALL_NO_LISTENER') return 'dead';
  const isForeign = /PEER_DENIED|PATH_UNSAFE|CREDENTIALS_UNAVAILABLE/.test(error.code);
  return isForeign ? 'foreign' : 'failed';
}

/** The services of a program. @throws what `connect()` and the call throw. */
export async function list(place: Place): Promise<readonly ServiceDescription[]> {
  await using session = await connectTo(place);
  const { services } = await session.client(ReflectionService).list(undefined, { timeoutMs });
  return services;
}

/**
 * Calls a method of a program with JSON, and gives each response to `onResponse`. @throws what the
 * call throws.
 */
export async function call(
  place: Place,
  wireName: string,
  requests: Requests,
  options: { readonly timeoutMs: number | undefined },
  onResponse: (value: unknown) => void,
): Promise<void> {
  let failure: SidecallError | undefined;
  await using session = await connectTo(place, (event) => {
    if (event.type === 'notification-failed') failure = event.error;
  });
  const { services } = await session.client(ReflectionService).list(undefined, { timeoutMs });
  const described = services.find(({ methods }) => methods.some(({ name }) => name === wireName));
  const method = described?.methods.find(({ name }) => name === wireName);
  if (described === undefined || method === undefined) {
    const names = services.flatMap(({ methods }) => methods.map(({ name }) => name));
    const meant = didYouMean(wireName, names);
    const text = `${wireName} is not served there${meant === '' ? ';' : meant} 'sidecall list' shows what is`;
    throw new RpcError('unimplemented', text);
  }
  const { kind } = method;
  const isUpload = kind === 'clientStream' || kind === 'bidi';
  const request = isUpload ? requests.each() : await requests.one();
  const invoke =
    method.request === 'protobuf'
      ? await protobufFunction(session, described, wireName)
      : jsonFunction(session, wireName, kind, [method.request, method.response]);
  const answer = invoke(request, options);
  if (kind === 'serverStream' || kind === 'bidi')
    for await (const each of answer as AsyncIterable<unknown>) onResponse(each);
  else {
    const value = await (answer as Promise<unknown>);
    if (kind !== 'notification') onResponse(value);
  }
  if (kind !== 'notification') return;
  await session.close(); // once it was handled
  if (failure !== undefined) throw failure;
}

type Invoke = (request: unknown, options: object) => unknown;

const kindsOfMethods: { readonly [Kind in MethodKind]: (options: object) => Method } = {
  unary,
  serverStream,
  clientStream,
  bidi,
  notification,
};

function jsonFunction(
  session: Session,
  wireName: string,
  kind: MethodKind,
  codecs: readonly (string | undefined)[],
): Invoke {
  const strange = codecs.find((codec) => codec !== undefined && codec !== 'json');
  if (strange !== undefined) {
    const text = `${wireName} has messages of the codec '${strange}': that needs a program`;
    throw new RpcError('invalid_argument', text);
  }
  const codec = json<unknown>();
  const methods = { call: kindsOfMethods[kind]({ request: codec }) };
  const service: Service<Methods> = { name: wireName, methods, wireName: () => wireName };
  return (session.client(service) as unknown as { call: Invoke }).call;
}

/**
 * The function of a protobuf method, by the descriptor of the program: of ProtoJSON, in both
 * directions. protobufjs must be installed in the project.
 */
async function protobufFunction(
  session: Session,
  { name, descriptor }: ServiceDescription,
  wireName: string,
): Promise<Invoke> {
  if (descriptor === undefined) {
    const text = `${wireName} is protobuf, and the program hands out no descriptor: it has a static module`;
    throw new RpcError('invalid_argument', text);
  }
  const [{ default: protobufjs }, { default: protojson }, { protobufService, protobuf }] =
    await Promise.all([
      import('protobufjs'),
      import('protobufjs/ext/protojson.js'),
      import('../adapters/protobuf.ts'),
    ]).catch((cause) => {
      const text = 'this needs protobufjs 8.8 or later: npm install protobufjs';
      throw new RpcError('failed_precondition', text, { cause });
    });
  const { fromJson, toJson } = protojson as unknown as ProtoJson;
  const root = await rootOf(protobufjs, descriptor as object);
  const found = root.lookupService(name);
  const described = protobufService(found);
  const member = Object.keys(described.methods).find(
    (each) => described.wireName(each) === wireName,
  );
  const { kind, idempotent } = described.methods[member as string] as Method;
  const method = found.methodsArray.find((each) => wireName === `${name}/${each.name}`);
  const codecOf = (type: Protobufjs.Type): Codec<unknown> => {
    const codec = protobuf<unknown>(type);
    return {
      ...codec,
      encode: (value) => codec.encode(fromJson(type, value ?? {})),
      decode: (bytes, isOwned) => toJson(type, codec.decode(bytes, isOwned)),
    };
  };
  const { resolvedRequestType, resolvedResponseType } = method as Protobufjs.Method;
  const request = codecOf(resolvedRequestType as Protobufjs.Type);
  const response = codecOf(resolvedResponseType as Protobufjs.Type);
  const methods = { call: kindsOfMethods[kind]({ request, response, idempotent }) };
  const service: Service<Methods> = { name, methods, wireName: () => wireName };
  return (session.client(service) as unknown as { call: Invoke }).call;
}

/** The part of protobufjs that reads and writes ProtoJSON. */
interface ProtoJson {
  /** @throws for a value that does not fit, and for a field that there is not. */
  fromJson(type: Protobufjs.Type, json: unknown): object;
  toJson(type: Protobufjs.Type, message: unknown): unknown;
}

/** The messages of a program, in either form of {@link ServiceDescription.descriptor}. */
async function rootOf(protobufjs: typeof Protobufjs, descriptor: object): Promise<Protobufjs.Root> {
  const { files } = descriptor as { files?: readonly string[] };
  if (files === undefined) {
    return protobufjs.Root.fromJSON(descriptor as Parameters<typeof protobufjs.Root.fromJSON>[0]);
  }
  const { default: module } = await import('protobufjs/ext/descriptor/index.js');
  const { FileDescriptorProto } = module as unknown as { FileDescriptorProto: Protobufjs.Type };
  const file = files.map((text) => FileDescriptorProto.decode(Buffer.from(text, 'base64')));
  const Root = protobufjs.Root as unknown as { fromDescriptor(set: object): Protobufjs.Root };
  return Root.fromDescriptor({ file });
}
