// The types of what a test runs of pingpong.mjs.
export declare const pingpong: {
  run(
    peer: {
      cpu(): { readonly client: number; readonly server: number };
      rss(): { readonly client: number; readonly server: number };
      openPingPong(size: number): Promise<{
        receive(): Promise<Uint8Array>;
        send(bytes: Uint8Array): Promise<unknown>;
        close(): Promise<void>;
      }>;
    },
    cell: { readonly size: number; readonly seconds: number; readonly what: string },
  ): Promise<{ readonly errors: number; readonly windows: readonly number[] }>;
};
