// SPDX-License-Identifier: MIT
// The flight recorder that the sessions of this thread write to.
import type { FlightRecorder } from '../wire/flight-recorder.ts';

let recorder: FlightRecorder | undefined;

/** undefined: this thread is not recorded. */
export function threadRecorder(): FlightRecorder | undefined {
  return recorder;
}

/** Sessions that are opened from now on write to it. */
export function recordThread(given: FlightRecorder): void {
  recorder = given;
}
