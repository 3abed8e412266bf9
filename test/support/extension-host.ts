// The host of the example in examples/extension-host, as tests use it.
import { join, resolve } from 'node:path';

export const home = resolve(import.meta.dirname, '../../examples/extension-host');
export const folder = join(home, 'extensions');

export interface Row {
  readonly name: string;
  readonly state: string;
  readonly why: string | undefined;
  readonly pid: number | undefined;
  readonly loop: string | undefined;
  readonly busyForMs: number;
  readonly restarts: number;
  readonly running: number;
  readonly log: string[];
  readonly logged: number;
  readonly stored: number;
  readonly progress: { title: string; done: number; total: number }[];
}

export interface Host {
  readonly rows: Row[];
  run(command: string, args?: unknown, options?: object): Promise<unknown>;
  enable(name: string): void;
  kill(name: string): void;
  cancel(name: string): void;
  close(): Promise<void>;
}

export const { ExtensionHost } = (await import(join(home, 'host.mjs'))) as {
  ExtensionHost: new (folder: string, options?: object) => Host;
};
export const { render, stateOf, bar } = await import(join(home, 'tui.mjs'));

export const restart = { firstMs: 5, maxMs: 20, maxRestarts: 2, windowMs: 60_000 };

export async function hosting(
  run: (host: Host, row: (name: string) => Row) => Promise<void>,
  options: object = {},
  from = folder,
): Promise<void> {
  const limits = { activateTimeoutMs: 600_000, commandTimeoutMs: 600_000, livenessEveryMs: 50 };
  const host = new ExtensionHost(from, { restart, ...limits, ...options });
  const row = (name: string): Row => host.rows.find((each) => each.name === name) as Row;
  try {
    await run(host, row);
  } finally {
    await host.close();
  }
}

export async function failureOf(promise: Promise<unknown>): Promise<Error & { code?: string }> {
  try {
    await promise;
  } catch (error) {
    return error as Error;
  }
  throw new Error('it did not fail');
}
