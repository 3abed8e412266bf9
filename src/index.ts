// SPDX-License-Identifier: MIT
// The public names. No logic.

// Two processes that meet.
export {
  type Capabilities,
  capabilities,
  type OwnCredentials,
  ownCredentials,
} from './capabilities.ts';
export { type ConnectOptions, connect } from './connect.ts';
// Calls between them.
export {
  type Delivered,
  type FailureStatus,
  RpcError,
  type RpcErrorOptions,
  SidecallError,
  type SidecallErrorCode,
  type SidecallErrorOptions,
  type Status,
} from './errors.ts';
export type { SessionOptions } from './establish.ts';
export type { OnEvent, SidecallEvent } from './events.ts';
export { type Helper, type SpawnOptions, spawnHelper } from './helper/helper.ts';
export { type ParentOptions, parent } from './helper/parent.ts';
export type { HelperExit } from './helper/start.ts';
export type { HelperState } from './helper/states.ts';
export type { RestartOptions } from './helper/supervise.ts';
export type { SessionLimits } from './limits.ts';
export { type DoorOptions, type ListenOptions, listen, type PlainListenOptions } from './listen.ts';
export type { Listener } from './listener.ts';
export type { Metadata } from './metadata.ts';
export type { Identity } from './path-peer.ts';
export type { Peer } from './peer.ts';
export type { PlainConnection, PlainListener } from './plain-listener.ts';
export { configure, type ProcessOptions } from './process-settings.ts';
export {
  type MessageSink,
  toReadable,
  toReadableStream,
  toWritable,
  toWritableStream,
} from './rpc/adapters.ts';
export {
  type ByteReader,
  type ByteWriter,
  byteReader,
  byteWriter,
} from './rpc/byte-stream.ts';
export type { CallContext, CallOptions } from './rpc/call.ts';
export type {
  AcceptDuplexOptions,
  AcceptOptions,
  Channel,
  ChannelOptions,
  ChannelSubscriber,
  DuplexOptions,
  HalfOpenOptions,
} from './rpc/channel.ts';
export type { ClientOptions } from './rpc/client.ts';
export { bytes, type Codec } from './rpc/codec.ts';
export type { SessionDuplex } from './rpc/duplex.ts';
export {
  type Health,
  type HealthRequest,
  type HealthResponse,
  HealthService,
  type HealthStatus,
} from './rpc/health.ts';
export type { InterceptedCall, Interceptor } from './rpc/interceptor.ts';
export { json } from './rpc/json.ts';
export type { IfJson, NotCarriedByJson } from './rpc/jsonable.ts';
export { type Block, type Lease, leased, type ReadonlyBytes } from './rpc/lease.ts';
export type { Liveness } from './rpc/liveness.ts';
export {
  type MethodDescription,
  ReflectionService,
  type ServiceDescription,
} from './rpc/reflection.ts';
export { type Implementation, implement, type ServeOptions } from './rpc/registry.ts';
export type { RetryOptions } from './rpc/retry.ts';
export {
  type SchemaIssue,
  type SchemaResult,
  type StandardSchema,
  validated,
} from './rpc/schema.ts';
export {
  type BidiFunction,
  type BidiMethod,
  bidi,
  type Client,
  type ClientStreamFunction,
  type ClientStreamMethod,
  clientStream,
  type Handlers,
  type Method,
  type MethodBase,
  type MethodKind,
  type MethodMaker,
  type MethodOptions,
  type MethodSettings,
  type Methods,
  type NotificationMethod,
  notification,
  type Requests,
  type Responses,
  type ServerStreamMethod,
  type Service,
  serverStream,
  service,
  type UnaryMethod,
  type UntypedMethod,
  unary,
} from './rpc/service.ts';
export type { Accepted, Session } from './rpc/session.ts';
export type { SessionState, SessionStats } from './rpc/session-core.ts';
export type { Bidi, ClientStream, ServerStream } from './rpc/streams.ts';
export type { WaitOptions } from './rpc/waiting.ts';
export type { WaitReason } from './rpc/waits.ts';
export type { Lane } from './transport.ts';
export type { PeerPolicy, PeerRules } from './uds/peer.ts';
export type { ServerRules } from './uds/rendezvous.ts';
