// SPDX-License-Identifier: MIT
// The messages between main and page on a MessagePort, in structured clones. Credit is counted in
// messages. Knows neither Node nor Electron nor the DOM.
import type { Delivered, FailureStatus, SidecallErrorCode } from '../../base/error-codes.ts';
import type { Metadata } from '../../base/metadata.ts';
import type { MethodKind } from '../../rpc/contract/method-types.ts';

/** Version of these messages, raised for each change that an older end would misunderstand. */
export const portVersion = 1;

/** Messages of a stream that may be under way to the page before it has taken any. */
export const responseWindow = 32;
/** The same, to main. */
export const requestWindow = 16;

/** Channels of Electron's IPC between preload and main. */
export const channels = { connect: 'sidecall:connect', port: 'sidecall:port' } as const;

/** A failure, as a message carries it. `rpc`: it is an `RpcError` of a handler. */
export interface PortError {
  readonly rpc: boolean;
  readonly code: SidecallErrorCode;
  readonly status: FailureStatus;
  readonly message: string;
  readonly delivered: Delivered;
  readonly retryable: boolean;
  readonly details?: unknown;
  readonly metadata?: Metadata | undefined;
}

/** From the page. */
export type PageMessage =
  | {
      readonly t: 'open';
      readonly id: number;
      readonly method: string;
      readonly kind: MethodKind;
      readonly value?: unknown;
      readonly timeoutMs?: number | undefined;
      readonly metadata?: Metadata | undefined;
    }
  /** A request of a stream, within the credit that main gave. */
  | { readonly t: 'message'; readonly id: number; readonly value: unknown }
  /** No more requests. */
  | { readonly t: 'end'; readonly id: number }
  /** `count` responses were taken. */
  | { readonly t: 'credit'; readonly id: number; readonly count: number }
  | { readonly t: 'cancel'; readonly id: number };

/** From main. */
export type MainMessage =
  /** The first. */
  | { readonly t: 'ready'; readonly version: number; readonly maxInFlight: number }
  | { readonly t: 'headers'; readonly id: number; readonly metadata: Metadata }
  | { readonly t: 'trailers'; readonly id: number; readonly metadata: Metadata }
  /** A response of a stream, within {@link responseWindow} and the credit since. */
  | { readonly t: 'message'; readonly id: number; readonly value: unknown }
  | { readonly t: 'credit'; readonly id: number; readonly count: number }
  /** The call is over: with its one response, or behind the stream of them. */
  | { readonly t: 'result'; readonly id: number; readonly value?: unknown }
  | { readonly t: 'error'; readonly id: number; readonly error: PortError }
  /** The connection is over because of `error`; the port closes. */
  | { readonly t: 'bye'; readonly error: PortError };
