// SPDX-License-Identifier: MIT
// Calls by the wire name of a method, in JSON.
import { CallKind } from '../../wire/frame-header.ts';
import { json } from '../contract/json.ts';
import { builtInPrefix } from '../contract/service.ts';
import type { MethodCall } from './call-target.ts';

/** A method without a contract: JSON. */
export function untyped(name: string, kind: number): MethodCall {
  const codec = json<unknown>();
  const response = kind === CallKind.notification ? undefined : codec;
  const isBuiltIn = name.startsWith(builtInPrefix);
  return { name, kind, request: codec, response, isBulk: false, isBuiltIn, isIdempotent: false };
}
