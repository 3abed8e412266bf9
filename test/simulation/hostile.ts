// A process that writes wrong bytes: into its outbox, or over its socket.
import type { ConnectedEnd } from '../../src/testing/simulation/connection.ts';
import type { World } from '../../src/testing/simulation/world.ts';

/** Bytes of an outbox in which the shared words and the first records lie. */
const controlPageBytes = 16_384;
const wordOffsets = [128, 256, 384, 512];

/** Plans wrong bytes of this end, at instants that the seed decides. */
export function corrupt(world: World, end: ConnectedEnd): void {
  const random = world.random.fork();
  const times = 1 + random.below(6);
  for (let left = times; left > 0; left -= 1) {
    world.plan(random.fraction() * 60, () => {
      if (end.process.isDead) return;
      world.trace(end.process.name, 'writes wrong bytes');
      const bytes = Uint8Array.from({ length: random.pick([1, 4, 8, 12, 40]) }, () => {
        return random.chance(50) ? random.below(16) : random.next();
      });
      if (end.ring === undefined || random.chance(20)) return end.socket.inject(bytes);
      const isWord = random.chance(50);
      const offset = isWord ? random.pick(wordOffsets) : controlPageBytes + 8 * random.below(1_024);
      end.ring.overwrite(offset, bytes);
    });
  }
}
