// SPDX-License-Identifier: MIT
// Methods that are served, by wire name. A Map: a method called `toString` is unknown like any other.
import { nodeError } from '../errors.ts';
import type { CallContext } from './call.ts';
import type { Codec } from './codec.ts';
import { checkService, type Handlers, type Methods, type Service } from './service.ts';

/** A method with the function that answers it. */
export interface Served {
  readonly kind: 'unary' | 'notification';
  readonly request: Codec<unknown>;
  readonly response: Codec<unknown> | undefined;
  readonly handler: (request: unknown, ctx: CallContext) => unknown;
}

/** Methods of one session, on top of those that its listener or helper serves for all of its own. */
export class Registry {
  readonly #methods = new Map<string, Served>();
  readonly #parent: Registry | undefined;

  constructor(parent?: Registry) {
    this.#parent = parent;
  }

  find(name: string): Served | undefined {
    return this.#methods.get(name) ?? this.#parent?.find(name);
  }

  /**
   * Serves a service.
   * @throws {TypeError} `ERR_INVALID_ARG_VALUE` where a handler is missing or the service is served
   * already; then nothing of it is served.
   */
  add<M extends Methods>(service: Service<M>, handlers: Handlers<M>): void {
    checkService('serve()', service);
    if (typeof handlers !== 'object' || handlers === null) {
      throw misuse(`serve(${service.name}): handlers are missing`);
    }
    const added = new Map<string, Served>();
    for (const [method, description] of Object.entries(service.methods)) {
      const name = service.wireName(method);
      const handler: unknown = (handlers as Record<string, unknown>)[method];
      if (typeof handler !== 'function')
        throw misuse(`serve(${service.name}): no handler '${method}'`);
      if (this.find(name) !== undefined)
        throw misuse(`serve(${service.name}): '${name}' is served already`);
      added.set(name, {
        kind: description.kind,
        request: description.request,
        response: description.kind === 'unary' ? description.response : undefined,
        handler: (request, ctx) => handler.call(handlers, request, ctx),
      });
    }
    for (const [name, served] of added) this.#methods.set(name, served);
  }
}

function misuse(words: string): TypeError {
  return nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', words);
}
