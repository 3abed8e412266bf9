// SPDX-License-Identifier: MIT
// Methods of a contract as functions.
import type { CallOptions } from './call.ts';
import type { Callable } from './caller.ts';
import { type Client, checkService, type Methods, type Service } from './service.ts';

/** Whoever can call: a session, or a helper that outlives its sessions. */
export interface CallTarget {
  call(callable: Callable, value: unknown, options: CallOptions | undefined): Promise<unknown>;
}

/** One function per method; the object has no prototype and is frozen. */
export function makeClient<M extends Methods>(service: Service<M>, target: CallTarget): Client<M> {
  checkService('client()', service);
  const client = Object.create(null) as Record<string, unknown>;
  for (const [method, description] of Object.entries(service.methods)) {
    const callable: Callable = {
      name: service.wireName(method),
      request: description.request,
      response: description.kind === 'unary' ? description.response : undefined,
    };
    client[method] = (request: unknown, options?: CallOptions) =>
      target.call(callable, request, options);
  }
  return Object.freeze(client) as Client<M>;
}
