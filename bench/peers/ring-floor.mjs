// The least that a call over our own native ring can be: a table of slots, a header of 16 bytes,
// one promise, fresh memory for each message; no codec, deadline, credit or count. Both ends are
// in this process.
import { requireNative } from '../../dist/internal/addon/load-addon.js';
import { RingPair } from '../micro-ring.mjs';

const slotsMax = 4096;
const headerBytes = 16;
const batch = 16;
const [request, answer] = [2, 3];

export async function open() {
  const native = requireNative('the benchmark');
  const pair = new RingPair(native);
  const { near, far } = pair.rings;
  const { staged, slab, registers } = native.ringExchange();
  const header = new DataView(staged.buffer, staged.byteOffset);
  const arrived = new DataView(slab.buffer, slab.byteOffset);
  const free = Array.from({ length: slotsMax }, (_, at) => slotsMax - 1 - at);
  const settlers = new Array(slotsMax).fill(undefined);
  const generations = new Uint32Array(slotsMax);
  let isPumpDue = false;

  const write = (ring, type, slot, generation, message) => {
    header.setUint32(0, slot, true);
    header.setUint32(4, generation, true);
    header.setUint32(8, type, true);
    header.setUint32(12, message.length, true);
    staged.set(message, headerBytes);
    if (native.ringWriteStaged(ring, headerBytes + message.length, 0) !== 1) {
      throw new Error('the ring is full');
    }
  };
  /** Calls `take` for each message that has arrived on a ring. */
  const drain = (ring, type, take) => {
    native.ringDrain(ring, batch, 0);
    for (let at = 0; at < registers[0]; ) {
      const length = arrived.getUint32(at, true);
      const bodyAt = at + 4 + headerBytes;
      const slot = arrived.getUint32(at + 4, true);
      const generation = arrived.getUint32(at + 8, true);
      const isWhole = arrived.getUint32(at + 16, true) === length - headerBytes;
      if (!isWhole || arrived.getUint32(at + 12, true) !== type || slot >= slotsMax) {
        throw new Error('a frame that nobody sent');
      }
      at += 4 + length;
      take(slot, generation, slab.slice(bodyAt, at));
    }
  };
  const pump = () => {
    isPumpDue = false;
    native.ringPublish(near);
    const served = [];
    drain(far, request, (slot, generation, message) => served.push({ slot, generation, message }));
    for (const { slot, generation, message } of served) {
      write(far, answer, slot, generation, handler(message));
    }
    native.ringPublish(far);
    drain(near, answer, (slot, generation, message) => {
      if (generation !== generations[slot]) return;
      generations[slot] += 1;
      free.push(slot);
      settlers[slot](message);
    });
  };

  return {
    serverPids: [],
    echo: (message) => {
      const slot = free.pop();
      const promise = new Promise((resolve) => {
        settlers[slot] = resolve;
      });
      write(near, request, slot, generations[slot], message);
      if (!isPumpDue) setImmediate(pump);
      isPumpDue = true;
      return promise;
    },
    close: () => pair.close(),
  };
}

function handler(message) {
  return message;
}
