// SPDX-License-Identifier: MIT
// The contexts of AsyncLocalStorage of callers. The far end of the session makes each call in the
// context of its caller, so that interceptors and instrumentation of the other protocol see that.
import { AsyncLocalStorage } from 'node:async_hooks';
import { wireLimits } from '../../base/limits/wire-limits.ts';
import type { Metadata } from '../../base/metadata.ts';
import type { CallContext } from '../../rpc/contract/call-context.ts';
import type { CallOptions } from '../../rpc/contract/call-options.ts';

type RunIn = <T>(run: () => T) => T;

// No peer can set it: keys of this package are left out of what arrives.
const contextKey = 'sidecall-context';

/** The context in which the package was loaded, which belongs to no caller. */
const neutral: RunIn = AsyncLocalStorage.snapshot();

/** The contexts of the calls under way. */
export class CallerContexts {
  readonly #contexts = new Map<string, RunIn>();
  #last = 0;

  /**
   * Keeps the context of now for a call, until `forget`.
   * @returns the options of the call, which name the context.
   */
  keep(options: CallOptions | undefined): { options: CallOptions; forget: () => void } {
    const { metadata } = options ?? {};
    const entries = Object.keys(metadata ?? {}).length;
    // There is no room for another entry: the call is made in the neutral context.
    if (entries >= wireLimits.metadataEntriesMax) return { options: options ?? {}, forget: none };
    this.#last += 1;
    const id = String(this.#last);
    this.#contexts.set(id, AsyncLocalStorage.snapshot());
    return {
      options: { ...options, metadata: { ...metadata, [contextKey]: id } },
      forget: () => void this.#contexts.delete(id),
    };
  }

  /** Runs `run` in the context that belongs to the call of `ctx`. */
  run<T>({ metadata }: CallContext, run: () => T): T {
    const runIn = this.#contexts.get(String(metadata[contextKey])) ?? neutral;
    return runIn(run);
  }
}

/** The metadata that the caller has given. */
export function callerMetadata({ metadata }: CallContext): Metadata {
  const { [contextKey]: _, ...own } = metadata;
  return own;
}

function none(): void {}
