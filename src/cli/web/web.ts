// SPDX-License-Identifier: MIT
// `sidecall inspect --web`: serves pages until it is told to end.
import { once } from 'node:events';
import { readOperands } from './operands.ts';
import { WebServer } from './web-server.ts';

/** Options of the command. */
interface WebOptions {
  readonly intervalMs: number;
  readonly timeoutMs: number;
  /** The link as a line of JSON. */
  readonly isJson: boolean;
}

/**
 * Resolves after SIGINT, SIGTERM or SIGHUP.
 * @throws (as rejection) {SidecallError} for an operand that is no process and no saved copy.
 */
export async function serveWeb(operands: readonly string[], options: WebOptions): Promise<void> {
  const { isJson, ...times } = options;
  const ended = ['SIGINT', 'SIGTERM', 'SIGHUP'].map((signal) => once(process, signal));
  await using server = await WebServer.open({ ...(await readOperands(operands)), ...times });
  if (isJson) console.log(JSON.stringify({ url: server.url }));
  else {
    console.log(`Open this link in a browser on this machine:\n\n  ${server.url}\n`);
    console.log('The link has a token: it is for you alone. Ctrl+C ends the server.');
  }
  await Promise.race(ended);
}
