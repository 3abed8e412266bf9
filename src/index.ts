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
export type { RestartOptions } from './helper/supervise.ts';
export type { SessionLimits } from './limits.ts';
export { type ListenOptions, listen } from './listen.ts';
export type { Listener } from './listener.ts';
export type { Metadata } from './metadata.ts';
export type { Identity } from './path-peer.ts';
export type { Peer } from './peer.ts';
export { configure, type ProcessOptions } from './process-settings.ts';
export type { CallContext, CallOptions } from './rpc/call.ts';
export { bytes, type Codec, json } from './rpc/codec.ts';
export {
  type Client,
  type Handlers,
  type Method,
  type MethodOptions,
  type Methods,
  type NotificationMethod,
  notification,
  type Service,
  service,
  type UnaryMethod,
  unary,
} from './rpc/service.ts';
export type { Session } from './rpc/session.ts';
export type { SessionState, SessionStats } from './rpc/session-core.ts';
export type { Lane } from './transport.ts';
export type { PeerPolicy, PeerRules } from './uds/peer.ts';
export type { ServerRules } from './uds/rendezvous.ts';
