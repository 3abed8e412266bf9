import { expect } from 'vitest';
import type { Session } from '../../src/rpc/session/session.ts';
import { Demo } from './contract.ts';

/** Calls a session that attacks must not disturb; `stop()` ends and returns the count. */
export function canary(session: Session): {
  /** Calls up to now. */
  readonly calls: () => number;
  readonly stop: () => Promise<number>;
} {
  let isOver = false;
  let calls = 0;
  const loop = (async () => {
    const demo = session.client(Demo);
    while (!isOver) {
      expect(await demo.add({ a: calls, b: 1 })).toEqual({ sum: calls + 1 });
      calls += 1;
      await new Promise((done) => setTimeout(done, 1));
    }
  })();
  return {
    calls: () => calls,
    stop: async () => {
      isOver = true;
      await loop;
      return calls;
    },
  };
}
