// SPDX-License-Identifier: MIT
// `sidecall/golib`: programs in Go that speak by johnsiilver/golib, package ipc/uds: its RPC and
// its streams, with identified peers.
export { connectGolib, type GolibTarget, type GolibTargetOptions } from './golib-target.ts';
export { type ListenGolibOptions, listenGolib } from './listen-golib.ts';
export {
  type ChunkStreamOptions,
  chunkStream,
  type GolibStream,
  type ProtoStreamOptions,
  protoStream,
} from './streams.ts';
