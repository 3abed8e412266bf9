// SPDX-License-Identifier: MIT
// `sidecall/grpc`: gRPC servers of @grpc/grpc-js (1.11 or later, which the application brings)
// whose callers the kernel identifies; and contracts of this package, served by gRPC to
// callers on other machines.
import { Server } from '@grpc/grpc-js';
import { nodeError } from '../../base/misuse.ts';

export { attachListener, type GrpcCall, peerOf } from './attach-listener.ts';
export type { Authenticate, GrpcCaller, GrpcIdentity } from './caller-gate.ts';
export { type GrpcTarget, type GrpcTargetOptions, grpcTarget } from './grpc-target.ts';
export {
  type GrpcListener,
  type ListenGrpcAddressOptions,
  type ListenGrpcBaseOptions,
  type ListenGrpcOptions,
  type ListenGrpcPathOptions,
  listenGrpc,
} from './listen-grpc.ts';
export { type ServeGrpcOptions, type ServeGrpcServiceOptions, serveGrpc } from './serve-grpc.ts';

if (typeof Server.prototype.createConnectionInjector !== 'function') {
  const text =
    'sidecall/grpc needs @grpc/grpc-js 1.11 or later: the installed one cannot be given connections';
  throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
}
