// Compiled, never run: the keys of the numbers. Each @ts-expect-error is a test.

import type {
  CallEnd,
  CallKindName,
  RingMemoryUse,
  ServedEnd,
  Session,
  SidecallEvent,
  WaitReason,
} from '../../src/index.ts';

export function numbers(session: Session): void {
  const { ends, waits, methods, memoryUse } = session.stats();
  ends.called['by-caller'] satisfies number | undefined;
  ends.called.aborted satisfies number | undefined;
  ends.served.aborted satisfies number | undefined;
  ends.served.ERR_SIDECALL_CANCELLED satisfies number | undefined;
  // @ts-expect-error calls of the peer end by the peer, whose reason is not known
  ends.served['by-caller'];
  // @ts-expect-error a call that ended well is no failure
  ends.called.ok;
  methods.called.map(({ kind }) => kind) satisfies CallKindName[];
  memoryUse satisfies RingMemoryUse | undefined;
  for (const { sending } of session.inspect().streams) {
    sending?.waitsFor satisfies WaitReason | undefined;
  }
  waits satisfies Readonly<Record<WaitReason, number>>;
}

export function stalled(session: Session, event: SidecallEvent): number {
  return event.type === 'stalled' ? session.stats().waits[event.reason] : 0;
}

export const endsOfBoth = (end: ServedEnd): CallEnd => end;
