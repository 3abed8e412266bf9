// SPDX-License-Identifier: MIT
// The types of Electron, as far as they are used, so that nothing of it is imported; and what a
// page's calls go to.
import type { ClientOptions } from '../../rpc/calling/client.ts';
import type { Client, Methods, Service } from '../../rpc/contract/method-types.ts';

/** Electron's `MessagePortMain`, as far as it is used. */
export interface MainPort {
  // biome-ignore lint/suspicious/noExplicitAny: as Electron declares it
  on(event: 'message', listener: (event: { data: any }) => void): unknown;
  on(event: 'close', listener: () => void): unknown;
  postMessage(message: unknown): void;
  start(): void;
  close(): void;
}

/** Electron's `WebFrameMain`, as far as it is used. */
export interface MainFrame {
  readonly origin: string;
  readonly parent: unknown;
  readonly processId: number;
  readonly routingId: number;
  // biome-ignore lint/suspicious/noExplicitAny: as Electron declares it
  postMessage(channel: string, message: any, transfer?: any[]): void;
}

/** Electron's `WebContents`, as far as it is used. */
export interface MainWebContents {
  readonly mainFrame: Pick<MainFrame, 'processId' | 'routingId'>;
  readonly ipc: {
    // biome-ignore-start lint/suspicious/noExplicitAny: as Electron declares it
    on(channel: string, listener: (event: any, ...args: any[]) => void): unknown;
    removeListener(channel: string, listener: (...args: any[]) => void): unknown;
  };
  on(event: any, listener: (...args: any[]) => void): unknown;
  removeListener(event: any, listener: (...args: any[]) => void): unknown;
  // biome-ignore-end lint/suspicious/noExplicitAny: as Electron declares it
}

/** A session, or a helper whose calls live through restarts. */
export interface CallSource {
  client<M extends Methods>(service: Service<M>, options?: ClientOptions): Client<M>;
}
