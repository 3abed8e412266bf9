// SPDX-License-Identifier: MIT
// The public names. No logic.

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
} from './base/errors.ts';
export type { OnEvent, SidecallEvent } from './base/events.ts';
export type { SessionLimits } from './base/limits.ts';
export type { Metadata } from './base/metadata.ts';
export type { Peer } from './base/peer.ts';
export type { HelperExit } from './helper/helper-process.ts';
export type { HelperState } from './helper/helper-state.ts';
export { type ParentOptions, parent } from './helper/parent.ts';
export { type Helper, type SpawnOptions, spawnHelper } from './helper/spawn-helper.ts';
export type { RestartOptions } from './helper/supervisor.ts';
// Two processes that meet.
export {
  type Capabilities,
  capabilities,
  type OwnCredentials,
  ownCredentials,
} from './open/capabilities.ts';
export { configure, type ProcessOptions } from './open/configure.ts';
export type { SessionOptions } from './open/open-session.ts';
export type { Identity } from './open/path-identity.ts';
export { type ConnectOptions, connect } from './rendezvous/connect.ts';
export {
  type DoorOptions,
  type ListenOptions,
  listen,
  type PlainListenOptions,
} from './rendezvous/listen.ts';
export type { Listener } from './rendezvous/listener.ts';
export type { PlainConnection, PlainListener } from './rendezvous/plain-listener.ts';
export type { Bidi, ClientStream, ServerStream } from './rpc/calling/caller-streams.ts';
export type { ClientOptions } from './rpc/calling/client.ts';
export type { RetryOptions } from './rpc/calling/retry.ts';
export {
  type ByteReader,
  type ByteWriter,
  byteReader,
  byteWriter,
} from './rpc/channels/byte-stream.ts';
export type {
  AcceptDuplexOptions,
  AcceptOptions,
  Channel,
  ChannelOptions,
  ChannelSubscriber,
  DuplexOptions,
  HalfOpenOptions,
} from './rpc/channels/channel.ts';
export type { SessionDuplex } from './rpc/channels/duplex.ts';
export {
  type MessageSink,
  toReadable,
  toReadableStream,
  toWritable,
  toWritableStream,
} from './rpc/channels/node-streams.ts';
export type { CallContext, CallOptions } from './rpc/contract/call.ts';
export { bytes, type Codec } from './rpc/contract/codec.ts';
export type { InterceptedCall, Interceptor } from './rpc/contract/interceptor.ts';
export { json } from './rpc/contract/json.ts';
export type { IfJson, NotCarriedByJson } from './rpc/contract/jsonable.ts';
export { type Block, type Lease, leased, type ReadonlyBytes } from './rpc/contract/leases.ts';
export {
  type SchemaIssue,
  type SchemaResult,
  type StandardSchema,
  validated,
} from './rpc/contract/schema.ts';
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
} from './rpc/contract/service.ts';
export {
  type Health,
  type HealthRequest,
  type HealthResponse,
  HealthService,
  type HealthStatus,
} from './rpc/serving/health.ts';
export {
  type MethodDescription,
  ReflectionService,
  type ServiceDescription,
} from './rpc/serving/reflection.ts';
export { type Implementation, implement, type ServeOptions } from './rpc/serving/registry.ts';
export type { Liveness } from './rpc/session/pings.ts';
export type { Accepted, Session } from './rpc/session/session.ts';
export type { SessionState, SessionStats } from './rpc/session/session-core.ts';
export type { WaitReason } from './rpc/stalls.ts';
export type { WaitOptions } from './rpc/wait.ts';
export type { ServerRules } from './uds/connect-path.ts';
export type { PeerPolicy, PeerRules } from './uds/peer-identity.ts';
export type { Lane } from './wire/transport.ts';
