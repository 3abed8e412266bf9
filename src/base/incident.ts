// SPDX-License-Identifier: MIT
// The common cause of many failed calls: the end of their session. Each call rejects with an error
// of its own.
import type { SidecallError } from './errors.ts';

const incidents = new WeakMap<SidecallError, object>();

/** Notes that `incident` has caused `error`; returns `error`. */
export function causedBy(incident: object, error: SidecallError): SidecallError {
  incidents.set(error, incident);
  return error;
}

/** The incident that caused `error`; undefined where none is noted. */
export function incidentOf(error: SidecallError): object | undefined {
  return incidents.get(error);
}
