// SPDX-License-Identifier: MIT
// The common cause of many failed calls: the end of their session. Each call rejects with an error
// of its own.
import type { SidecallError } from './errors.ts';

const incidents = new WeakMap<SidecallError, object>();

/** `error` is one of those that `incident` has caused. */
export function causedBy(incident: object, error: SidecallError): SidecallError {
  incidents.set(error, incident);
  return error;
}

/** The same for all errors of one incident; undefined for an error that stands alone. */
export function incidentOf(error: SidecallError): object | undefined {
  return incidents.get(error);
}
