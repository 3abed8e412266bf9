// SPDX-License-Identifier: MIT
// The numbers of one method in a session: its calls, their messages and how long they took.
import { Histogram, type Percentiles } from '../../base/histogram.ts';
import { wireLimits } from '../../base/limits/wire-limits.ts';
import { CallKind, type CallKindName } from '../../wire/frame-header.ts';
import { callKindNames } from '../../wire/number-names.ts';

/** Whole messages of one direction. */
export interface MessageCounts {
  /** Messages, ever. */
  readonly messages: number;
  /** Their bytes, as their codec made them: without frame headers, names and metadata. */
  readonly bytes: number;
}

/** A method in `session.stats()`, called by us or served for the peer. */
export interface MethodStats {
  /** The name, or in brackets what is counted together: channels, byte streams, other methods. */
  readonly method: string;
  readonly kind: CallKindName;
  /** Calls that were begun, those that wait included. */
  readonly started: number;
  /** Calls that ended well. */
  readonly succeeded: number;
  /** Calls that ended in another way, those that were given up included. */
  readonly failed: number;
  /** Messages that we sent on these calls, and those that arrived whole. */
  readonly sent: MessageCounts;
  readonly received: MessageCounts;
  /**
   * Milliseconds from the beginning of a call to its end: of ours, waiting included, until the
   * answer has arrived; of the peer's from its arrival until it was answered.
   */
  readonly latencyMs: Percentiles;
}

/** Whole messages of one direction, counted. */
export class MessageCounter implements MessageCounts {
  messages = 0;
  bytes = 0;

  count(bytes: number): void {
    this.messages += 1;
    this.bytes += bytes;
  }

  add(other: MessageCounts): void {
    this.messages += other.messages;
    this.bytes += other.bytes;
  }

  /** The numbers at this moment. */
  get now(): MessageCounts {
    return { messages: this.messages, bytes: this.bytes };
  }
}

/** The numbers of one method: in one object, since each further one would be memory to fetch. */
export class MethodCounters {
  readonly method: string;
  readonly kind: number;
  /** In a table; false: of one call of a method that is not served yet. */
  readonly isKept: boolean;
  started = 0;
  #failed = 0;
  /** Failures that have a duration: those of calls that had begun. */
  #timedFailures = 0;
  /** Messages, and their bytes. The way of a plain call counts here itself. */
  sentMessages = 0;
  sentBytes = 0;
  receivedMessages = 0;
  receivedBytes = 0;
  readonly latency = new Histogram();
  /** For the flight recorder; 0: its name was not written there. */
  nameNumber = 0;

  constructor(method: string, kind: number, isKept: boolean) {
    this.method = method;
    this.kind = kind;
    this.isKept = isKept;
  }

  /** `isTimed`: the call had begun, and its duration is counted. */
  countFailure(isTimed: boolean): void {
    this.#failed += 1;
    if (isTimed) this.#timedFailures += 1;
  }

  /** A message has left. */
  countSent(bytes: number): void {
    this.sentMessages += 1;
    this.sentBytes += bytes;
  }

  /** A message is whole. */
  countReceived(bytes: number): void {
    this.receivedMessages += 1;
    this.receivedBytes += bytes;
  }

  get sent(): MessageCounts {
    return { messages: this.sentMessages, bytes: this.sentBytes };
  }

  get received(): MessageCounts {
    return { messages: this.receivedMessages, bytes: this.receivedBytes };
  }

  add(other: MethodCounters): void {
    this.started += other.started;
    this.#failed += other.#failed;
    this.#timedFailures += other.#timedFailures;
    this.sentMessages += other.sentMessages;
    this.sentBytes += other.sentBytes;
    this.receivedMessages += other.receivedMessages;
    this.receivedBytes += other.receivedBytes;
    this.latency.add(other.latency);
  }

  get now(): MethodStats {
    const latencyMs = this.latency.percentiles();
    return {
      method: this.method,
      kind: callKindNames.get(this.kind) as CallKindName,
      started: this.started,
      succeeded: latencyMs.count - this.#timedFailures, // each end of a call that had begun has one
      failed: this.#failed,
      sent: this.sent,
      received: this.received,
      latencyMs,
    };
  }
}

/** The name of calls of the peer's that were not served. */
export const notServed = '(not served)';

/** Names that are not counted one by one: there may be one for each document or tab. */
const together: Record<number, string | undefined> = {
  [CallKind.channel]: '(channels)',
  [CallKind.duplex]: '(byte streams)',
};

/** The methods of a session in one direction of calls, by kind and name. */
export class MethodTable {
  // By kind: they are numbered from 1 on.
  readonly #kinds = Array.from(
    { length: callKindNames.size + 1 },
    () => new Map<string, MethodCounters>(),
  );
  #last: MethodCounters | undefined;
  #size = 0;

  /** The numbers of a method; behind the 4,096th, those of all further ones of its kind. */
  of(method: string, kind: number): MethodCounters {
    const last = this.#last;
    if (last !== undefined && last.method === method && last.kind === kind) return last;
    const name = together[kind] ?? method;
    const counters = this.#kinds[kind]?.get(name) ?? this.#new(name, kind);
    this.#last = counters;
    return counters;
  }

  /** The numbers of a method that was counted before; undefined: there are none. */
  known(method: string, kind: number): MethodCounters | undefined {
    const last = this.#last;
    if (last !== undefined && last.method === method && last.kind === kind) return last;
    const counters = this.#kinds[kind]?.get(together[kind] ?? method);
    if (counters !== undefined) this.#last = counters;
    return counters;
  }

  get all(): readonly MethodCounters[] {
    return this.#kinds.flatMap((methods) => [...methods.values()]);
  }

  add(other: MethodTable): void {
    for (const counters of other.all) this.of(counters.method, counters.kind).add(counters);
  }

  #new(method: string, kind: number): MethodCounters {
    const methods = this.#kinds[kind] as Map<string, MethodCounters>;
    const isLong = method.length > wireLimits.methodNameMaxBytes; // its calls are refused
    const name = isLong || this.#size >= wireLimits.methodsMax ? '(other methods)' : method;
    const known = methods.get(name);
    if (known !== undefined) return known;
    const counters = new MethodCounters(name, kind, true);
    methods.set(name, counters);
    this.#size += 1;
    return counters;
  }
}
