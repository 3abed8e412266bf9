// The server process of a peer: the peer's own file, started again with `serve`.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * Starts the server process, and waits until it is ready. `path`: for its socket, in a directory
 * of its own. Options about the heap hold for both sides.
 */
export async function startServer(url, options = {}) {
  const scratch = mkdtempSync(join(tmpdir(), 'bench-peer-'));
  const path = join(scratch, 'socket');
  const execArgv = process.execArgv.filter((option) => option.startsWith('--initial-'));
  const server = fork(fileURLToPath(url), ['serve', path], { execArgv, ...options });
  const [said] = await once(server, 'message');
  return {
    server,
    path,
    pid: server.pid,
    /** The server's message that it is ready. */
    said,
    stop: async () => {
      server.kill();
      await once(server, 'exit');
      rmSync(scratch, { recursive: true, force: true });
    },
  };
}

/** The path that the server process listens at; undefined in the client. */
export function servedPath() {
  return process.argv[2] === 'serve' ? process.argv[3] : undefined;
}
