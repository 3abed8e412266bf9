// Valid scripts with one frame corrupted: the session ends in a known code or goes on, without a
// hang, leak or crash. The canary, another session of the process, is not disturbed.
import { describe, expect, it } from 'vitest';
import { checkLimits } from '../../src/base/limits/option-limits.ts';
import type { Peer } from '../../src/base/peer.ts';
import { bytes } from '../../src/rpc/contract/codec.ts';
import { Session } from '../../src/rpc/session/session.ts';
import { headerAt } from '../../src/wire/frame-header.ts';
import { type LoopbackTransport, loopbackPair } from '../../src/wire/loopback-transport.ts';
import type { FrameReceiver } from '../../src/wire/transport.ts';
import { collect, Demo, demoHandlers, Flow, flowHandlers, turns } from '../support/contract.ts';
import { Random } from '../support/random.ts';
import { rounds } from '../support/rounds.ts';

const peer: Peer = {
  origin: 'loopback',
  capturedAt: 'connect',
  pid: 1,
  pidIsHint: false,
  uid: 0,
  gid: 0,
  groups: [],
};

/** Spoils the n-th frame on its way to the receiver. */
function spoil(transport: LoopbackTransport, nth: number, how: (frame: Frame) => Frame[]): void {
  const start = transport.start.bind(transport);
  let seen = 0;
  transport.start = (receiver: FrameReceiver) =>
    start({
      placeFor: () => undefined,
      takeAhead: () => false,
      onRoom: () => receiver.onRoom(),
      onEnd: (error) => receiver.onEnd(error),
      onFrame: (memory, at, body, from, to) => {
        seen += 1;
        const frame = { header: headerAt(memory, at).slice(), payload: body.slice(from, to) };
        const frames = seen === nth ? how(frame) : [frame];
        for (const { header, payload } of frames) {
          receiver.onFrame(header, 0, payload, 0, payload.length);
        }
      },
    });
}

interface Frame {
  readonly header: Uint8Array;
  readonly payload: Uint8Array;
}

function corruption(random: Random): (frame: Frame) => Frame[] {
  const at = random.next(1000);
  const value = random.next(256);
  switch (random.next(6)) {
    case 0:
      return () => [];
    case 1:
      return (frame) => [frame, frame];
    case 2:
      return ({ header, payload }) => [
        { header, payload: payload.subarray(0, payload.byteLength >> 1) },
      ];
    case 3:
      return ({ header, payload }) => [
        { header, payload: Buffer.concat([payload, Buffer.from('extra')]) },
      ];
    default:
      return ({ header, payload }) => {
        const spoilt = header.slice();
        spoilt[at % header.byteLength] = value;
        return [{ header: spoilt, payload }];
      };
  }
}

/** Everything once; each part fails as it likes, and settles. */
async function script(near: Session, far: Session): Promise<number> {
  const flow = near.client(Flow);
  const demo = near.client(Demo);
  const accepted = far.channels(bytes, { name: 'c' });
  void (async () => {
    for await (const channel of accepted) {
      void (async () => {
        for await (const message of channel) await channel.send(message);
        await channel.end();
      })().catch(() => undefined);
    }
  })();
  const parts = [
    demo.add({ a: 1, b: 2 }),
    demo.echo(new Uint8Array(100_000)),
    demo.log('a line'),
    collect(flow.count({ to: 20 })),
    flow.sum([1, 2, 3]),
    collect(flow.shout(['a', 'b'])),
    collect(flow.download({ messages: 3, bytes: 90_000 })),
    (async () => {
      for await (const number of flow.count({ to: 100 })) if (number === 2) break;
    })(),
    (async () => {
      const channel = near.openChannel(bytes, { name: 'c' });
      await channel.send(new Uint8Array(70_000));
      await channel.end();
      await collect(channel);
    })(),
    demo.hang(undefined, { timeoutMs: 5 }),
  ];
  const settled = await Promise.allSettled(parts);
  return settled.filter(({ status }) => status === 'fulfilled').length;
}

const count = rounds(30_000, 800);

describe('a session whose frames are spoilt', () => {
  it('ends in a known code or goes on, and every promise settles', async () => {
    const random = Random.fromEnvironment();
    console.log(`fuzz: SIDECALL_SEED=${random.seed}, ${count} rounds`);
    const outcomes: Record<string, number> = {};
    const limits = checkLimits({ streamWindowBytes: 65_536 });
    const [canaryEnd, canaryFar] = loopbackPair();
    const parts = { peer, own: limits, remote: limits, laneReason: 'a test' };
    const canary = new Session({ ...parts, transport: canaryEnd });
    const served = new Session({ ...parts, transport: canaryFar });
    served.serve(Demo, demoHandlers());
    for (let round = 0; round < count; round += 1) {
      const [nearEnd, farEnd] = loopbackPair();
      spoil(random.chance(50) ? nearEnd : farEnd, 1 + random.next(120), corruption(random));
      const near = new Session({ ...parts, transport: nearEnd });
      const far = new Session({ ...parts, transport: farEnd });
      far.serve(Flow, flowHandlers());
      far.serve(Demo, demoHandlers());
      const done = script(near, far);
      // A frame that was lost may leave a call waiting, as a peer does that never answers.
      await Promise.race([done, new Promise((resolve) => setTimeout(resolve, 40))]);
      expect(await canary.client(Demo).add({ a: round, b: 1 })).toEqual({ sum: round + 1 });
      await Promise.all([near.close({ deadlineMs: 0 }), far.close({ deadlineMs: 0 })]);
      await done;
      await turns(2);
      for (const session of [near, far]) {
        const code = (await session.closed)?.code ?? 'orderly';
        outcomes[code] = (outcomes[code] ?? 0) + 1;
        expect([
          'orderly',
          'ERR_SIDECALL_PROTOCOL',
          'ERR_SIDECALL_FRAME_TOO_LARGE',
          'ERR_SIDECALL_PEER_GONE',
          'ERR_SIDECALL_CLOSED',
        ]).toContain(code);
        expect(session.stats().calls).toEqual({ open: 0, waiting: 0 });
      }
    }
    console.log(`fuzz: ${JSON.stringify(outcomes)}`);
    expect(outcomes.ERR_SIDECALL_PROTOCOL).toBeGreaterThan(0);
    await Promise.all([canary.close(), served.close()]);
  });
});
