import * as grpc from '@grpc/grpc-js';
import { describe, expect, it } from 'vitest';
import { attachListener, peerOf, serveGrpc } from '../../src/adapters/grpc/main.ts';
import type { SidecallEvent } from '../../src/base/events.ts';
import type { Peer } from '../../src/base/peer.ts';
import { listen } from '../../src/rendezvous/listen.ts';
import { defer, until } from '../support/contract.ts';
import {
  addOne,
  attached,
  collect,
  definition,
  handlers,
  Indexer,
  IndexerClient,
  overTcp,
} from '../support/grpc.ts';
import type { demo } from '../support/proto/demo.js';

function plainServer(seen: (peer: Peer | undefined) => void): grpc.Server {
  const server = new grpc.Server();
  server.addService(definition, {
    addOne(call: grpc.ServerUnaryCall<demo.Q, demo.IA>, callback: grpc.sendUnaryData<demo.IA>) {
      seen(peerOf(call));
      callback(null, { number: call.request.number + 1 });
    },
    async listAll(call: grpc.ServerWritableStream<demo.Q, demo.IA>) {
      seen(peerOf(call));
      for (let number = 0; number < call.request.number; number += 1) call.write({ number });
      call.end();
    },
    upload(
      call: grpc.ServerReadableStream<demo.Q, demo.IA>,
      callback: grpc.sendUnaryData<demo.IA>,
    ) {
      let number = 0;
      call.on('data', (piece: demo.Q) => {
        number += piece.data.byteLength;
      });
      call.on('end', () => {
        seen(peerOf(call));
        callback(null, { number });
      });
    },
    chat(call: grpc.ServerDuplexStream<demo.Q, demo.IA>) {
      seen(peerOf(call));
      call.on('data', ({ number }: demo.Q) => call.write({ number: number * 2 }));
      call.on('end', () => call.end());
    },
  });
  return server;
}

describe('attachListener()', () => {
  it('an existing service has callers that the kernel vouches for, in all four kinds', async () => {
    const peers: (Peer | undefined)[] = [];
    const { client, close } = await attached(plainServer((peer) => peers.push(peer)));
    expect((await addOne(client, { number: 41 })).value?.number).toBe(42);
    expect(await collect(client.listAll?.({ number: 3 }))).toEqual([0, 1, 2]);
    const sum = await new Promise((resolve) => {
      const call = client.upload?.((_: unknown, answer: demo.A) => resolve(answer.number));
      call.write({ data: Buffer.alloc(100_000) });
      call.end({ data: Buffer.alloc(1) });
    });
    expect(sum).toBe(100_001);
    const chat = client.chat?.();
    chat.write({ number: 4 });
    chat.end({ number: 5 });
    expect(await collect(chat)).toEqual([8, 10]);
    expect(peers).toHaveLength(4);
    for (const peer of peers) {
      expect(peer).toMatchObject({
        origin: 'kernel',
        pid: process.pid,
        uid: process.geteuid?.(),
      });
    }
    await close();
  });

  it('whom the policy refuses reaches no handler', async () => {
    const peers: unknown[] = [];
    const events: SidecallEvent[] = [];
    const { client, close } = await attached(
      plainServer((peer) => peers.push(peer)),
      { authorize: { uid: 12_345 }, onEvent: (event) => void events.push(event) },
    );
    const { status } = await addOne(client, { number: 1 });
    expect(status.code).toBe(grpc.status.UNAVAILABLE);
    expect(peers).toEqual([]);
    expect(events[0]).toMatchObject({
      type: 'refused',
      error: { code: 'ERR_SIDECALL_PEER_DENIED' },
    });
    await close();
  });

  it('tells connections apart, and knows nothing of those of another port', async () => {
    const peers: (Peer | undefined)[] = [];
    const server = plainServer((peer) => peers.push(peer));
    const { path, client, close } = await attached(server);
    const address = await overTcp(server);
    const tcp = new IndexerClient(address, grpc.credentials.createInsecure());
    await addOne(tcp, { number: 1 });
    expect(peers).toEqual([undefined]);
    const script = `
      import * as grpc from '@grpc/grpc-js';
      const pass = (bytes) => bytes;
      const client = new grpc.Client(process.argv[1], grpc.credentials.createInsecure());
      client.makeUnaryRequest('/demo.Indexer/AddOne', pass, pass, Buffer.alloc(0), (error) => {
        if (error) throw error;
        console.log(process.pid);
        client.close();
      });`;
    await addOne(client, { number: 1 });
    const args = ['--input-type=module', '-e', script, `unix:${path}`];
    const { spawn } = await import('node:child_process');
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    let said = '';
    for await (const chunk of child.stdout) said += chunk;
    expect(peers.slice(1).map((peer) => peer?.pid)).toEqual([process.pid, Number(said)]);
    expect(Number(said)).toBe(child.pid);
    tcp.close();
    await close();
  });

  it('calls of many connections at once, and the end of all of them', async () => {
    const { path, close } = await attached(plainServer(() => undefined));
    const clients = Array.from(
      { length: 20 },
      (_, at) =>
        new IndexerClient(`unix:${path}`, grpc.credentials.createInsecure(), {
          'grpc.use_local_subchannel_pool': 1,
          at,
        } as never),
    );
    const answers = await Promise.all(
      clients.flatMap((client) => [1, 2, 3].map((number) => addOne(client, { number }))),
    );
    expect(answers.map(({ value }) => value?.number)).toEqual(clients.flatMap(() => [2, 3, 4]));
    await close();
    for (const client of clients) client.close();
  });

  it('a close of the listener lets calls under way finish', async () => {
    const server = new grpc.Server();
    const released = defer();
    let isStarted = false;
    const slow = async (): Promise<object> => {
      isStarted = true;
      await released.promise;
      return { number: 5 };
    };
    serveGrpc(server, Indexer, { ...handlers, addOne: slow }, { authenticate: () => undefined });
    const { client, close } = await attached(server);
    const calling = addOne(client, {});
    await until(() => isStarted);
    const closing = close();
    released.resolve();
    expect((await calling).value?.number).toBe(5);
    await closing;
  });

  it('refuses other arguments', async () => {
    await expect(attachListener({} as never, {} as never)).rejects.toThrow(TypeError);
    await using sessions = await listen();
    await expect(attachListener(new grpc.Server(), sessions as never)).rejects.toThrow("'plain'");
  });
});
