// Notifications that wait for room, and priority.

import { describe, expect, it } from 'vitest';
import { bytes } from '../../src/rpc/contract/codec.ts';
import { serverStream, service, unary } from '../../src/rpc/contract/service.ts';
import { FrameFlag, FrameType } from '../../src/wire/frame-header.ts';
import {
  collect,
  Demo,
  defer,
  demoHandlers,
  Flow,
  flowHandlers,
  turns,
  until,
} from '../support/contract.ts';
import { hostilePeer } from '../support/hostile.ts';
import { openLoopback } from '../support/pairs.ts';

describe('notifications', () => {
  it('wait for a place where handlers hold all of them, in order, and none is dropped', async () => {
    const failed: string[] = [];
    await using pair = openLoopback({
      far: { streamsMax: 4 },
      onNearEvent: ({ type }) => failed.push(type),
    });
    const gate = defer();
    const seen: string[] = [];
    pair.far.serve(
      Demo,
      demoHandlers({
        log: async (line) => {
          seen.push(line);
          await gate.promise;
        },
        same: (value) => value,
      }),
    );
    const demo = pair.near.client(Demo);
    const lines = Array.from({ length: 40 }, (_, at) => `${at}`);
    const logging = Promise.all(lines.map((line) => demo.log(line)));
    await until(() => seen.length === 4);
    await turns(5);
    expect(seen).toEqual(['0', '1', '2', '3']);
    gate.resolve();
    await logging;
    await until(() => seen.length === 40);
    expect(seen).toEqual(lines);
    expect(failed).toEqual([]);
  });

  it('a peer at its limit that lets handlers of refused calls run still takes them in order', async () => {
    const peer = hostilePeer({ streamsMax: 2 });
    const gate = defer();
    const seen: string[] = [];
    peer.session.serve(Demo, demoHandlers({ log: (line) => void seen.push(line) }));
    peer.session.serve(
      Flow,
      flowHandlers({
        async sum(numbers) {
          await numbers.next().catch(() => undefined);
          await gate.promise;
          return { sum: 0 };
        },
      }),
    );
    peer.announce('Flow.sum', 'Demo.log');
    const flags = FrameFlag.fromOpener | FrameFlag.streamed;
    for (const slot of [0, 1]) {
      peer.open({ kind: 4, slot });
      peer.send(peer.write.message(flags, slot, 1, 1), '{');
    }
    // Two handlers run on, of calls that are over.
    await until(() => peer.heard.filter(({ type }) => type === FrameType.end).length === 2);
    peer.open({ kind: 2, slot: 0, generation: 2, method: 1 }, '"a"');
    peer.open({ kind: 2, slot: 1, generation: 2, method: 1 }, '"b"');
    await turns(5);
    expect(seen).toEqual([]);
    gate.resolve();
    await until(() => seen.length === 2);
    expect(seen).toEqual(['a', 'b']);
    await peer.session.close({ deadlineMs: 0 });
  });
});

describe('priority', () => {
  it('of a method sends all of its messages as bulk, in both directions', async () => {
    const Bulk = service('Bulk', {
      down: serverStream({ response: bytes, priority: 'bulk' }),
      up: unary({ request: bytes, priority: 'bulk' }),
    });
    await using pair = openLoopback();
    const sent: string[] = [];
    for (const [at, transport] of pair.transports.entries()) {
      const trySend = transport.trySend.bind(transport);
      transport.trySend = (header, payload, bulk) => {
        const isMessage = header[0] === FrameType.message || header[0] === FrameType.open;
        if (isMessage) sent.push(`${at} ${bulk}`);
        return trySend(header, payload, bulk);
      };
    }
    pair.far.serve(Bulk, { down: () => [new Uint8Array(10)], up: () => undefined });
    const client = pair.near.client(Bulk);
    expect(await collect(client.down(undefined))).toHaveLength(1);
    await client.up(new Uint8Array(10));
    expect(sent).toEqual(['0 true', '1 true', '0 true', '1 true']);
    expect(() => service('X', { x: unary({ priority: 'high' as never }) })).toThrow(
      'normal or bulk',
    );
  });
});
