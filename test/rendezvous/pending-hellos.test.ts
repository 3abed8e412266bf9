// Places of connections in their hello: the choice of the one that is dropped for a newcomer.

import { describe, expect, it } from 'vitest';
import { SidecallError } from '../../src/base/errors.ts';
import { tuning } from '../../src/base/limits/internal-limits.ts';
import { PendingHellos } from '../../src/rendezvous/pending-hellos.ts';

const one = { pid: 1001, uid: 7 };
const other = { pid: 1002, uid: 7 };
const longAgo = (): number => Number.NEGATIVE_INFINITY;

describe('the book of hellos', () => {
  it('drops a silent one of the same process for its newcomer', () => {
    const book = new PendingHellos(3);
    const [first, second, third] = [book.enter(one), book.enter(one), book.enter(one)];
    second.silentSince = longAgo;
    book.enter(one);
    expect(second.reason?.code).toBe('ERR_SIDECALL_LIMIT_CONNECTIONS');
    expect([first.reason, third.reason]).toEqual([undefined, undefined]);
    expect(book.size).toBe(3);
  });

  it('keeps one whose bytes lie in the kernel because our loop was busy', () => {
    const book = new PendingHellos(2);
    const tickets = [book.enter(one), book.enter(one)];
    for (const ticket of tickets) {
      ticket.silentSince = longAgo;
      ticket.hasUnread = () => true;
    }
    expect(() => book.enter(one)).toThrow(SidecallError);
    expect(tickets.map(({ reason }) => reason)).toEqual([undefined, undefined]);
  });

  it('drops the oldest of the process that has the most for one that has less', () => {
    const book = new PendingHellos(3);
    const tickets = [book.enter(one), book.enter(one), book.enter(one)];
    book.enter(other);
    expect(tickets.map(({ reason }) => reason?.code)).toEqual([
      'ERR_SIDECALL_LIMIT_CONNECTIONS',
      undefined,
      undefined,
    ]);
  });

  it('finds the silent ones again after a search that found none', async () => {
    const book = new PendingHellos(2);
    const [first] = [book.enter(one), book.enter(one)];
    expect(() => book.enter(one)).toThrow(SidecallError);
    await new Promise((resolve) => setTimeout(resolve, tuning.quietHelloMs + 5));
    book.enter(one);
    expect(first?.reason).toBeDefined();
  });

  it('aborts a signal that is asked for late, and tells whoever waits', () => {
    const book = new PendingHellos(2);
    const [early, late] = [book.enter(one), book.enter(one)];
    const { signal } = early as { signal: AbortSignal };
    let isTold = false;
    (late as { onAbort?: () => void }).onAbort = () => {
      isTold = true;
    };
    const reason = new SidecallError('ERR_SIDECALL_CLOSED');
    book.abort(reason);
    expect([signal.reason, late?.signal.reason, isTold]).toEqual([reason, reason, true]);
    expect(book.size).toBe(0);
  });

  it('refuses without collecting a stack, and leaves the limit of stacks as it was', () => {
    const before = Error.stackTraceLimit;
    const book = new PendingHellos(0);
    let refusal: unknown;
    try {
      book.enter({ pid: 1, uid: 1 });
    } catch (error) {
      refusal = error;
    }
    expect(refusal).toMatchObject({ code: 'ERR_SIDECALL_LIMIT_CONNECTIONS' });
    expect((refusal as Error).stack).not.toContain('\n    at ');
    expect(Error.stackTraceLimit).toBe(before);
  });
});
