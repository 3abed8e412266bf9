import type {
  BidiMethod,
  ClientStreamMethod,
  Handlers,
  NotificationMethod,
  ServerStreamMethod,
  Service,
  UnaryMethod,
} from '../../../src/index.ts';

export type Kinds = {
  readonly add: UnaryMethod<{ a: number; b: number }, { sum: number }>;
  readonly bytes: UnaryMethod<Uint8Array, Uint8Array>;
  readonly borrowed: UnaryMethod<Uint8Array, Uint8Array>;
  readonly who: UnaryMethod<void, { origin: string; hasDeadline: boolean }>;
  readonly fail: UnaryMethod<string | undefined, void>;
  readonly wait: UnaryMethod<string, void>;
  readonly told: UnaryMethod<void, { told: string[]; started: string[]; ended: string[] }>;
  readonly tell: NotificationMethod<string>;
  readonly count: ServerStreamMethod<number, number>;
  readonly sum: ClientStreamMethod<number, number>;
  readonly shout: BidiMethod<string, string>;
  readonly endless: ServerStreamMethod<string, number>;
};
export const Everything: Service<Kinds>;
export function handlers(): Handlers<Kinds>;
