// SPDX-License-Identifier: MIT
// Checks of the providers that a program gives in place of its global ones.
import { nodeError } from '../base/misuse.ts';

/** @throws {TypeError} for what is no provider; undefined: the global one is used. */
export function checkProvider(
  what: string,
  option: 'tracerProvider' | 'meterProvider',
  given: unknown,
): void {
  const method = option === 'tracerProvider' ? 'getTracer' : 'getMeter';
  if (given === undefined) return;
  const has = (given as Partial<Record<string, unknown>> | null)?.[method];
  if (typeof has === 'function') return;
  const text = `${what}: ${option} must be a provider of OpenTelemetry, with ${method}()`;
  throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', text);
}
