// SPDX-License-Identifier: MIT
// The built-in health service, with the semantics of gRPC's
// (grpc/doc/health-checking.md).

import { RpcError } from '../../base/errors.ts';
import { nodeError } from '../../base/misuse.ts';
import type { CallContext } from '../contract/call-context.ts';
import type { Handlers } from '../contract/method-types.ts';
import { serverStream, service, unary } from '../contract/service.ts';

/** `service_unknown`: only in answers of `watch`, for a name that was never set. */
export type HealthStatus = 'unknown' | 'serving' | 'not_serving' | 'service_unknown';

const settable = ['unknown', 'serving', 'not_serving'];
const listMax = 100;

/** A service by its name; left out or empty: the whole program. */
export interface HealthRequest {
  readonly service?: string | undefined;
}

/** The response of {@link HealthService}. */
export interface HealthResponse {
  readonly status: HealthStatus;
}

/**
 * Contract of the built-in service that every session serves: `session.client(HealthService)`.
 * `check` rejects with `not_found` for a name that was never set; `watch` gives the present status,
 * then each change, of which a slow reader gets the latest only (call it with `windowBytes: 1` to
 * have none queued); `list` refuses above 100 names with `resource_exhausted`.
 */
export const HealthService = service('sidecall.Health', {
  check: unary<HealthRequest | undefined, HealthResponse>(),
  watch: serverStream<HealthRequest | undefined, HealthResponse>(),
  list: unary<void, { readonly statuses: { readonly [service: string]: HealthStatus } }>(),
});

/** The statuses of the services of a program. `''` is the program, serving from the start. */
export class Health {
  readonly #statuses = new Map<string, HealthStatus>([['', 'serving']]);
  readonly #watchers = new Set<() => void>();
  #isShutDown = false;

  /**
   * Sets the status of a service, known or new. After `shutdown()` it is ignored until `resume()`.
   * @throws {TypeError} `ERR_INVALID_ARG_VALUE` for another status or a name that is no string.
   */
  set(name: string, status: 'unknown' | 'serving' | 'not_serving'): void {
    if (typeof name !== 'string' || !settable.includes(status)) {
      const text = `health.set(): a name and one of ${settable.join(', ')} are needed`;
      throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
    }
    if (!this.#isShutDown) this.#set(name, status);
  }

  /** The status of a service, or undefined where it was never set. */
  get(name: string): HealthStatus | undefined {
    return this.#statuses.get(name);
  }

  /**
   * All services are `not_serving` from now on. Closing does this first, so that callers see it.
   */
  shutdown(): void {
    this.#isShutDown = true;
    for (const name of this.#statuses.keys()) this.#set(name, 'not_serving');
  }

  /** All services are `serving`, and `set()` counts again. */
  resume(): void {
    this.#isShutDown = false;
    for (const name of this.#statuses.keys()) this.#set(name, 'serving');
  }

  /** @internal A watcher is to be told before a session closes. */
  get isWatched(): boolean {
    return this.#watchers.size > 0;
  }

  /** @internal */
  readonly handlers: Handlers<typeof HealthService.methods> = {
    check: (request) => {
      const name = nameOf(request);
      const status = this.#statuses.get(name);
      if (status !== undefined) return { status };
      throw new RpcError('not_found', `no service '${name}'`);
    },
    watch: (request, ctx) => this.#watch(nameOf(request), ctx),
    list: () => {
      if (this.#statuses.size > listMax) {
        throw new RpcError('resource_exhausted', `more than ${listMax} services`);
      }
      return { statuses: Object.fromEntries(this.#statuses) };
    },
  };

  #set(name: string, status: HealthStatus): void {
    if (this.#statuses.get(name) === status) return;
    this.#statuses.set(name, status);
    for (const wake of this.#watchers) wake();
  }

  async *#watch(name: string, { signal }: CallContext): AsyncGenerator<HealthResponse> {
    let told: HealthStatus | undefined;
    let wake: () => void = () => undefined;
    const onChange = (): void => wake();
    this.#watchers.add(onChange);
    signal.addEventListener('abort', onChange);
    try {
      for (;;) {
        const status = this.#statuses.get(name) ?? 'service_unknown';
        if (status !== told) {
          told = status;
          yield { status };
          continue; // it may have changed while the caller was slow
        }
        if (signal.aborted) return;
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    } finally {
      this.#watchers.delete(onChange);
      signal.removeEventListener('abort', onChange);
    }
  }
}

function nameOf(request: HealthRequest | undefined): string {
  const name = request?.service ?? '';
  if (typeof name === 'string') return name;
  throw new RpcError('invalid_argument', 'a service is named by a string');
}
