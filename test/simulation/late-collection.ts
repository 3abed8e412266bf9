// The garbage collector gives memory back behind each case only. No seed decides when it works, and
// a session that needs it has a leak. NOTE: imported before all other modules.
const waiting: (() => void)[] = [];

class LateRegistry<T> implements FinalizationRegistry<T> {
  readonly [Symbol.toStringTag] = 'FinalizationRegistry';
  readonly #registry: FinalizationRegistry<T>;

  constructor(then: (held: T) => void) {
    this.#registry = new ordinary<T>((held) => void waiting.push(() => then(held)));
  }

  register(target: WeakKey, held: T, token?: WeakKey): void {
    this.#registry.register(target, held, token);
  }

  unregister(token: WeakKey): boolean {
    return this.#registry.unregister(token);
  }
}

const ordinary = globalThis.FinalizationRegistry;
globalThis.FinalizationRegistry = LateRegistry as FinalizationRegistryConstructor;

/** Gives back the memory that was collected since the last call. */
export function collectLate(): void {
  for (const then of waiting.splice(0)) then();
}
