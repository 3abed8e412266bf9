// SPDX-License-Identifier: MIT
// Listening and asking at a path by means of Node alone.
import { createConnection, type ListenOptions, type Server, type Socket } from 'node:net';
import { systemClock } from '../base/clock.ts';
import { SidecallError } from '../base/errors.ts';
import { pause } from '../base/pause.ts';

// macOS refuses where the backlog is full, too: a listener that is busy answers one of a few
// attempts.
const attemptsOf = (platform: string): number => (platform === 'darwin' ? 8 : 1);
const attemptPauseMs = 25;
const never = new AbortController().signal;

/**
 * Settles when the server listens. @throws {SidecallError} `ERR_SIDECALL_PATH_IN_USE`,
 * `ERR_SIDECALL_SYSTEM`.
 */
export function listenAt(server: Server, options: ListenOptions): Promise<void> {
  return new Promise<void>((done, fail) => {
    const onError = (cause: NodeJS.ErrnoException): void => fail(cannotListen(options, cause));
    server.once('error', onError);
    server.listen({ ...options, exclusive: true }, () => {
      server.off('error', onError);
      done();
    });
  });
}

/** Is there a listener? Where it cannot be known, yes. */
export async function isAnswered(
  path: string,
  {
    connect = createConnection as (options: { path: string }) => Socket,
    platform = process.platform as string,
  } = {},
): Promise<boolean> {
  for (let attempt = 1; ; attempt += 1) {
    const code = await tryOnce(connect({ path }));
    if (code === 'ENOENT' || code === 'ENOTDIR') return false;
    if (code !== 'ECONNREFUSED') return true;
    if (attempt === attemptsOf(platform)) return false;
    await pause(systemClock, attemptPauseMs, never);
  }
}

/** The code of the failure; undefined: connected. */
function tryOnce(socket: Socket): Promise<string | undefined> {
  return new Promise((resolve) => {
    socket.on('connect', () => {
      socket.destroy();
      resolve(undefined);
    });
    socket.on('error', (cause: NodeJS.ErrnoException) => resolve(cause.code ?? 'unknown'));
  });
}

function cannotListen({ path }: ListenOptions, cause: NodeJS.ErrnoException): SidecallError {
  const code = cause.code === 'EADDRINUSE' ? 'ERR_SIDECALL_PATH_IN_USE' : 'ERR_SIDECALL_SYSTEM';
  return new SidecallError(code, `${path}: ${cause.message}`, { cause });
}
