import type { MessagePort } from 'node:worker_threads';
import type { MainPort } from '../../src/adapters/electron/main.ts';

export declare class MessageChannelMain {
  readonly port1: MainPort;
  readonly port2: MessagePort;
}
