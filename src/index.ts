// SPDX-License-Identifier: MIT
// The public names, grouped by task. No logic.

// Two processes that meet: at a path, or because one started the other.

export type { HelperExit } from './helper/helper-errors.ts';
export type { HelperState } from './helper/helper-state.ts';
export { type ParentOptions, parent } from './helper/parent.ts';
export type { HelperRecording, RecorderMode } from './helper/recorder-memory.ts';
export type { ReplacedHelper } from './helper/replacement.ts';
export type { RestartOptions } from './helper/restart-options.ts';
export {
  type Helper,
  type ReplaceOptions,
  type StopOptions,
  spawnHelper,
} from './helper/spawn-helper.ts';
export type { SpawnOptions } from './helper/spawn-options.ts';
export type { LastingPeer } from './lasting/lasting-peer.ts';
export { type ConnectPoolOptions, connectPool } from './pool/connect-pool.ts';
export type { MapItem } from './pool/map-items.ts';
export type { MapOptions, Pool, PoolMember, PoolStopOptions } from './pool/pool.ts';
export type { PoolOptions, RecycleOptions } from './pool/pool-options.ts';
export type { PoolMemberStats, PoolState, PoolStats } from './pool/pool-state.ts';
export { type SpawnPoolOptions, spawnPool } from './pool/spawn-pool.ts';
export {
  type ConnectBaseOptions,
  type ConnectOptions,
  connect,
  type PlainConnectOptions,
  type ReconnectingOptions,
} from './rendezvous/connect.ts';
export type { Connection } from './rendezvous/connection.ts';
export type { ConnectionState } from './rendezvous/connection-state.ts';
export type { HandedOver, HandOverOptions } from './rendezvous/hand-over.ts';
export {
  type ListenBaseOptions,
  type ListenOptions,
  listen,
  type PlainListenOptions,
} from './rendezvous/listen.ts';
export type { Listener } from './rendezvous/listener.ts';
export type { PlainConnection, PlainListener } from './rendezvous/plain-listener.ts';
export type { ReconnectOptions } from './rendezvous/reconnect-options.ts';
export type { TakeOverOptions } from './rendezvous/take-over.ts';
export { type ListenSharedOptions, listenShared } from './shared/listen-shared.ts';
export { sharedHelper } from './shared/shared-helper.ts';
export type { SharedHelperOptions } from './shared/shared-options.ts';
export { socketPath } from './uds/private-directory.ts';

// The identity of the other process, and the policy that accepts it.

export type { Peer } from './base/peer.ts';
export type { MonitorOptions } from './open/monitor.ts';
export { totalStats } from './open/open-sessions.ts';
export type { Identity } from './open/path-identity.ts';
export { toPrometheus } from './open/prometheus.ts';
export type { TracedSession } from './open/session-trace.ts';
export type { ServerRules } from './uds/connect-path.ts';
export type { PeerPolicy, PeerRules } from './uds/peer-policy.ts';

// Contracts: the methods that may be called, and how values become bytes.

export { type BytesCodec, bytes, type Codec } from './rpc/contract/codec.ts';
export { type JsonOptions, json } from './rpc/contract/json.ts';
export type { IfJson, NotCarriedByJson } from './rpc/contract/jsonable.ts';
export { type Block, type Lease, leased, type ReadonlyBytes } from './rpc/contract/leases.ts';
export type {
  BidiFunction,
  BidiMethod,
  Client,
  ClientStreamFunction,
  ClientStreamMethod,
  Handlers,
  Method,
  MethodBase,
  MethodKind,
  MethodMaker,
  MethodOptions,
  MethodSettings,
  Methods,
  NotificationMethod,
  Requests,
  Responses,
  ServerStreamMethod,
  Service,
  UnaryMethod,
  UntypedMethod,
} from './rpc/contract/method-types.ts';
export {
  type SchemaIssue,
  type SchemaResult,
  type StandardSchema,
  validated,
} from './rpc/contract/schema.ts';
export {
  bidi,
  clientStream,
  notification,
  serverStream,
  service,
  unary,
} from './rpc/contract/service.ts';

// Calls: one side makes them, the other serves them.

export type { Metadata } from './base/metadata.ts';
export { type Server, type ServerOptions, server } from './open/server.ts';
export type { ClientOptions } from './rpc/calling/client.ts';
export type { RetryOptions } from './rpc/calling/retry.ts';
export type { CallContext } from './rpc/contract/call-context.ts';
export type { CallOptions } from './rpc/contract/call-options.ts';
export type { InterceptedCall, Interceptor } from './rpc/contract/interceptor.ts';
export type { Bidi, ClientStream, ServerStream } from './rpc/contract/stream-types.ts';
export {
  currentTrace,
  runInTrace,
  type Trace,
  type TraceApi,
  type TraceContextOptions,
  traceContext,
} from './rpc/contract/trace-context.ts';
export {
  type Health,
  type HealthRequest,
  type HealthResponse,
  HealthService,
  type HealthStatus,
} from './rpc/serving/health.ts';
export {
  type HandlersFor,
  type Implementation,
  implement,
  type ServeOptions,
} from './rpc/serving/implementation.ts';
export {
  type MethodDescription,
  ReflectionService,
  type ServiceDescription,
} from './rpc/serving/reflection.ts';
export type { Services } from './rpc/serving/registry.ts';

// Messages and bytes without calls.

export {
  type ByteReader,
  type ByteWriter,
  byteReader,
  byteWriter,
} from './rpc/channels/byte-stream.ts';
export type {
  AcceptDuplexOptions,
  Accepted,
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

// The session that carries both.

export type { Percentiles } from './base/histogram.ts';
export type { SessionLimits } from './base/limits/option-limits.ts';
export type { WaitReason } from './base/wait-reasons.ts';
export type { KeepAliveOptions, SessionOptions } from './open/session-options.ts';
export type { TracedCall } from './rpc/counting/call-trace.ts';
export type { MessageCounts, MethodStats } from './rpc/counting/method-counters.ts';
export type { CallEnd, ServedEnd } from './rpc/counting/session-counters.ts';
export type { SessionState } from './rpc/sending/session-shared.ts';
export type {
  InspectedStream,
  InspectedWriter,
  InspectOptions,
  RingInspection,
  SessionInspection,
} from './rpc/session/inspection.ts';
export type { Liveness } from './rpc/session/pings.ts';
export type { Session } from './rpc/session/session.ts';
export type { SessionStats } from './rpc/session/session-stats.ts';
export type { TotalStats } from './rpc/session/session-sums.ts';
export type { WaitTotals } from './rpc/stalls.ts';
export type { WaitOptions } from './rpc/wait.ts';
export type { CallKindName } from './wire/frame-header.ts';
export type { RecordReport } from './wire/record-walk.ts';
export type { OutboxReport, RingReport } from './wire/ring-report.ts';
export type { HeldLease, Lane, RingMemoryUse } from './wire/transport.ts';

// Errors, and events outside a call.

export {
  type Delivered,
  type FailureStatus,
  type SidecallErrorCode,
  type Status,
  statuses,
} from './base/error-codes.ts';
export {
  RpcError,
  type RpcErrorOptions,
  SidecallError,
  type SidecallErrorOptions,
} from './base/errors.ts';
export type { OnEvent, SidecallEvent } from './base/events.ts';

// The process and its host.

export {
  type Capabilities,
  capabilities,
  type OwnCredentials,
  ownCredentials,
} from './open/capabilities.ts';
export { configure, type ProcessOptions } from './open/configure.ts';
export type { RecordedEvent, Recording, RunningHandler } from './wire/recording.ts';
