// SPDX-License-Identifier: MIT
// The identity of callers from other machines, as the application decides.
import type { PeerCertificate } from 'node:tls';
import { errorText } from '../../base/error-text.ts';
import { RpcError, SidecallError } from '../../base/errors.ts';
import { emitEvent, type OnEvent } from '../../base/events.ts';
import type { Metadata } from '../../base/metadata.ts';
import type { Peer } from '../../base/peer.ts';

/** The facts on a caller before it is let in. */
export interface GrpcCaller {
  /** As gRPC names it: `/demo.Indexer/AddOne`. */
  readonly method: string;
  /** The metadata that it sent with the call: a token, in `authorization` for instance. */
  readonly metadata: Metadata;
  /** Address and port, or `unknown`. */
  readonly address: string;
  /** Is the connection encrypted: did it show a certificate, or was `serveGrpc()` told so? */
  readonly isEncrypted: boolean;
  /** Aborted when the caller has given up: the answer is not waited for then. */
  readonly signal: AbortSignal;
  /**
   * Its certificate, verified by TLS against the roots of `ServerCredentials.createSsl`; undefined:
   * it showed none.
   */
  readonly certificate: PeerCertificate | undefined;
}

/** The identity of a caller, as `authenticate` determines it. */
export interface GrpcIdentity {
  /**
   * `tls`: by its certificate; refused where it showed none. `secret`: by something that it knows;
   * refused where that came unencrypted from another machine, since then others know it too.
   */
  readonly origin: 'tls' | 'secret';
  /** The name for it in `ctx.peer.name`. */
  readonly name?: string | undefined;
}

/** Identifies a caller. Returning undefined, or throwing, refuses the call. */
export type Authenticate = (
  caller: GrpcCaller,
) => GrpcIdentity | undefined | Promise<GrpcIdentity | undefined>;

const unknownIds = {
  pid: undefined,
  pidIsHint: false,
  uid: undefined,
  gid: undefined,
  groups: undefined,
} as const;

/** Lets callers in, or refuses them. */
export interface Gate {
  /** @throws (as rejection) {RpcError} for the caller that is refused. */
  admit(known: Omit<GrpcCaller, 'signal'>, signal: AbortSignal): Promise<Peer>;
}

/** Lets every caller in: for the health service, which tells statuses and nothing else. */
export const anonymous: Gate = {
  admit: async () =>
    Object.freeze({ origin: 'secret', capturedAt: 'connect', ...unknownIds, name: 'anonymous' }),
};

/**
 * Calls `authenticate`, and checks its result against the connection: `tls` needs a certificate,
 * `secret` an encrypted or local connection.
 */
export class GrpcGate implements Gate {
  readonly #authenticate: Authenticate;
  readonly #onEvent: OnEvent | undefined;

  constructor(authenticate: Authenticate, onEvent: OnEvent | undefined) {
    this.#authenticate = authenticate;
    this.#onEvent = onEvent;
  }

  /** @throws {RpcError} for the caller; `onEvent` gets the reason of a refusal. */
  async admit(known: Omit<GrpcCaller, 'signal'>, signal: AbortSignal): Promise<Peer> {
    const caller = { ...known, signal };
    let identity: GrpcIdentity | undefined;
    let refusal: string | undefined;
    try {
      identity = await untilGivenUp(this.#authenticate(caller), signal);
      refusal = whyNot(identity, caller);
    } catch (error) {
      if (RpcError.is(error)) throw error;
      throw this.#refuse(caller, `authenticate failed: ${errorText(error)}`, error);
    }
    if (refusal !== undefined) throw this.#refuse(caller, refusal, undefined);
    const { origin, name } = identity as GrpcIdentity;
    return Object.freeze({ origin, capturedAt: 'connect', ...unknownIds, name });
  }

  /** The error for the caller, which does not state the reason; `onEvent` gets it. */
  #refuse({ method, address }: GrpcCaller, why: string, cause: unknown): RpcError {
    const text = `${method} from ${address}: ${why}`;
    const error = new SidecallError('ERR_SIDECALL_PEER_DENIED', text, { cause });
    emitEvent(this.#onEvent, { type: 'refused', error, peer: undefined });
    return new RpcError('unauthenticated', 'who are you?');
  }
}

/**
 * Settles as `promise` does, and rejects when the caller gives up: `authenticate` may never settle.
 */
function untilGivenUp<T>(promise: T | Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const giveUp = (): void => reject(new RpcError('cancelled', 'the caller gave up'));
    if (signal.aborted) return giveUp();
    signal.addEventListener('abort', giveUp);
    const settled = Promise.resolve(promise).finally(() =>
      signal.removeEventListener('abort', giveUp),
    );
    settled.then(resolve, reject);
  });
}

function whyNot(
  identity: GrpcIdentity | undefined,
  { certificate, isEncrypted, address }: GrpcCaller,
): string | undefined {
  if (identity === undefined || identity === null) return 'authenticate knows no such caller';
  const { origin, name } = identity;
  if (name !== undefined && typeof name !== 'string')
    return 'authenticate gave a name that is no string';
  if (origin === 'tls') {
    return certificate === undefined ? "it showed no certificate, so it is not 'tls'" : undefined;
  }
  if (origin !== 'secret') return `authenticate gave the origin '${String(origin)}'`;
  if (isEncrypted || isLoopback(address)) return undefined;
  return `its secret came unencrypted, from '${address}', which is not known to be this machine`;
}

/** Of the form that grpc-js gives: `127.0.0.1:5000`, `::1:5000`. */
function isLoopback(address: string): boolean {
  return /^(127\.\d+\.\d+\.\d+|::ffff:127\.\d+\.\d+\.\d+|::1):\d+$/.test(address);
}
