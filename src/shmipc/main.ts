// SPDX-License-Identifier: MIT
// `sidecall/shmipc`: programs in Go that use cloudwego's shmipc-go v0.2, over its shared memory,
// which both processes write: for peers that are trusted.
export { type ConnectShmipcOptions, connectShmipc } from './connect-shmipc.ts';
export { type ListenShmipcOptions, listenShmipc, type ShmipcListener } from './listen-shmipc.ts';
export type { ShmipcOptions } from './options.ts';
export type { ShmipcSession, ShmipcStats } from './shmipc-session.ts';
export type { ShmipcStream } from './shmipc-stream.ts';
