// Memory of a long message that is transferred before all of it was sent: the call of that message
// ends alone, by its caller's fault or by its handler's, whatever its kind and stage.
import { describe, expect, it } from 'vitest';
import { SidecallError } from '../../src/base/errors.ts';
import type { SidecallEvent } from '../../src/base/events.ts';
import { bytes } from '../../src/rpc/contract/codec.ts';
import {
  bidi,
  clientStream,
  notification,
  serverStream,
  service,
  unary,
} from '../../src/rpc/contract/service.ts';
import type { Session } from '../../src/rpc/session/session.ts';
import { Demo, demoHandlers, turns } from '../support/contract.ts';
import { lanes } from '../support/pairs.ts';

const both = { request: bytes, response: bytes };
const Long = service('Long', {
  unary: unary(both),
  notify: notification({ request: bytes }),
  up: clientStream(both),
  down: serverStream(both),
  both: bidi(both),
});
const longBytes = 4_000_000;

/** Instants of the transfer, counted from the begin of the message. */
const instants: Record<string, (then: () => void) => unknown> = {
  'in the same turn': (then) => void Promise.resolve().then(then),
  'a turn later': (then) => setImmediate(then),
  'three turns later': (then) => turns(3).then(then),
};

function transferred(instant: string): Uint8Array {
  const message = new Uint8Array(longBytes);
  instants[instant]?.(() => structuredClone(message, { transfer: [message.buffer] }));
  return message;
}

async function* once(message: Uint8Array): AsyncGenerator<Uint8Array> {
  yield message;
}

/** One long message of the caller, by each kind of call. */
const callers: Record<string, (near: Session, message: Uint8Array) => Promise<unknown>> = {
  unary: (near, message) => near.client(Long).unary(message),
  notification: (near, message) => near.client(Long).notify(message),
  'client stream': (near, message) => near.client(Long).up(once(message)),
  bidi: async (near, message) => {
    for await (const _ of near.client(Long).both(once(message)));
  },
  channel: async (near, message) => {
    const channel = near.openChannel(bytes, { name: 'long' });
    await channel.send(message);
    await channel.end();
  },
};

/** One long message of the handler, by each kind of call. */
const answers: Record<string, (near: Session) => Promise<unknown>> = {
  unary: (near) => near.client(Long).unary(new Uint8Array(1)),
  'client stream': (near) => near.client(Long).up(once(new Uint8Array(1))),
  'server stream': async (near) => {
    for await (const _ of near.client(Long).down(new Uint8Array(1)));
  },
};

describe.each(lanes)('a long message over the $lane', ({ openPair }) => {
  const rows = (kinds: object): [string, string][] =>
    Object.keys(kinds).flatMap((kind) =>
      Object.keys(instants).map((instant): [string, string] => [kind, instant]),
    );

  it.each(rows(callers))('of a %s that is transferred %s ends alone', async (kind, instant) => {
    await using pair = await openPair();
    pair.far.serve(Demo, demoHandlers());
    pair.far.serve(Long, {
      unary: () => new Uint8Array(1),
      notify: () => undefined,
      up: async (requests) => {
        for await (const _ of requests);
        return new Uint8Array(1);
      },
      down: once,
      both: (requests) => requests,
    });
    const accepted = pair.far.channels(bytes, { name: 'long' });
    void (async () => {
      for await (const channel of accepted)
        void (async () => {
          for await (const _ of channel);
        })().catch(() => undefined);
    })();
    const { add } = pair.near.client(Demo);
    const others = Array.from({ length: 20 }, (_, a) => add({ a, b: 1 }));
    const outcome = await (callers[kind] as (typeof callers)[string])(
      pair.near,
      transferred(instant),
    ).catch((error: unknown) => error);
    // Where all of it had left, or was copied, the call is answered.
    if (outcome instanceof Error) {
      expect(SidecallError.is(outcome) && outcome.code).toBe('ERR_SIDECALL_LEASE_RELEASED');
    }
    expect(await Promise.all(others)).toEqual(others.map((_, a) => ({ sum: a + 1 })));
    expect(await add({ a: 1, b: 1 })).toEqual({ sum: 2 });
    expect([pair.near.state, pair.far.state]).toEqual(['open', 'open']);
  });

  it.each(rows(answers))('of the handler of a %s, %s, too', async (kind, instant) => {
    const events: SidecallEvent[] = [];
    await using pair = await openPair({ onFarEvent: (event) => events.push(event) });
    pair.far.serve(Demo, demoHandlers());
    const long = (): Uint8Array => transferred(instant);
    pair.far.serve(Long, {
      unary: long,
      notify: () => undefined,
      up: async (requests) => {
        for await (const _ of requests);
        return long();
      },
      down: async function* () {
        yield long();
      },
      both: (requests) => requests,
    });
    const { add } = pair.near.client(Demo);
    const others = Array.from({ length: 20 }, (_, a) => add({ a, b: 1 }));
    const outcome = await (answers[kind] as (typeof answers)[string])(pair.near).catch(
      (error: unknown) => error,
    );
    if (outcome instanceof Error) {
      const { code } = outcome as SidecallError;
      expect(['ERR_SIDECALL_CANCELLED', 'ERR_SIDECALL_RPC']).toContain(code);
      expect(events.map(({ type }) => type)).toContain('handler-failed');
    }
    expect(await Promise.all(others)).toEqual(others.map((_, a) => ({ sum: a + 1 })));
    expect(await add({ a: 1, b: 1 })).toEqual({ sum: 2 });
    expect([pair.near.state, pair.far.state]).toEqual(['open', 'open']);
    // Its slot and its part of the windows are free again.
    for (let call = 0; call < 5; call += 1) await add({ a: call, b: 1 });
    expect(pair.near.stats().calls.open).toBe(0);
  });
});
