// SPDX-License-Identifier: MIT
// The failures of a forwarded call that no handler has said. They cross the session within this
// process as metadata of an error.
import type { Delivered, SidecallErrorCode } from '../../base/error-codes.ts';
import { RpcError, SidecallError } from '../../base/errors.ts';

// No peer can set it: keys of this package are left out of what arrives.
const failureKey = 'sidecall-failure';

interface LocalFailure {
  readonly code: SidecallErrorCode;
  readonly message: string;
  readonly delivered: Delivered;
  readonly retryable: boolean;
}

/** A failure of this side, for the near end. */
export function localFailure(
  code: SidecallErrorCode,
  message: string,
  { delivered, retryable }: { readonly delivered: Delivered; readonly retryable: boolean },
): RpcError {
  const failure: LocalFailure = { code, message, delivered, retryable };
  return new RpcError('unknown', '', { metadata: { [failureKey]: JSON.stringify(failure) } });
}

/** The error that {@link localFailure} has sent; any other error as it is. */
export function localFailureOf(error: unknown): unknown {
  if (!RpcError.is(error)) return error;
  const sent = error.metadata[failureKey];
  if (typeof sent !== 'string') return error;
  const { code, message, delivered, retryable } = JSON.parse(sent) as LocalFailure;
  return new SidecallError(code, message, { delivered, retryable });
}
