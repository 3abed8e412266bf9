// Two streams that are each other's peer: sockets of Node, and byte streams of a session.
import { connect as connectSocket, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import type { SocketLike } from '../../src/rpc/channels/socket-like.ts';
import { lanes } from './pairs.ts';

/** One end, as both kinds have it. */
export type End = Duplex &
  Pick<
    SocketLike,
    | 'bytesRead'
    | 'bytesWritten'
    | 'destroySoon'
    | 'readyState'
    | 'setKeepAlive'
    | 'setNoDelay'
    | 'setTimeout'
    | 'ref'
    | 'unref'
  >;

interface EndOptions {
  readonly allowHalfOpen?: boolean;
}

/** Two ends, and their underlying connection. */
interface SocketPair extends AsyncDisposable {
  readonly near: End;
  readonly far: End;
  /** More pairs over the same session. */
  readonly more: () => Promise<{ near: End; far: End }>;
}

export interface PairKind {
  readonly kind: string;
  readonly open: (options?: EndOptions) => Promise<SocketPair>;
}

let sockets = 0;

async function netPair(options: EndOptions = {}): Promise<SocketPair> {
  sockets += 1;
  const path = join(tmpdir(), `pair-${process.pid}-${sockets}`);
  const server = createServer(options);
  await new Promise<void>((resolve) => server.listen(path, resolve));
  const all: End[] = [];
  const more = async (): Promise<{ near: End; far: End }> => {
    const accepted = new Promise<End>((resolve) =>
      server.once('connection', (socket) => resolve(socket as unknown as End)),
    );
    const near = connectSocket({ path, ...options }) as unknown as End;
    const far = await accepted;
    all.push(near, far);
    return { near, far };
  };
  const first = await more();
  return {
    ...first,
    more,
    [Symbol.asyncDispose]: async () => {
      for (const end of all) end.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function duplexPair(lane: (typeof lanes)[number]): PairKind {
  const open = async (options: EndOptions = {}): Promise<SocketPair> => {
    const pair = await lane.openPair();
    const accepted = pair.far.duplexes({ name: 'raw', ...options });
    const all: End[] = [];
    const more = async (): Promise<{ near: End; far: End }> => {
      const near = pair.near.openDuplex({ name: 'raw', ...options });
      const { value } = await accepted.next();
      const far = value as End;
      all.push(near, far);
      return { near, far };
    };
    const first = await more();
    return {
      ...first,
      more,
      [Symbol.asyncDispose]: async () => {
        for (const end of all) end.on('error', () => undefined).destroy();
        await accepted.return?.();
        await pair[Symbol.asyncDispose]();
      },
    };
  };
  return { kind: `openDuplex over the ${lane.lane}`, open };
}

/** The kinds of pairs; the expectations of `net.Socket` hold for the others. */
export const socketPairs: readonly PairKind[] = [
  { kind: 'net.Socket', open: netPair },
  ...lanes.map(duplexPair),
];
