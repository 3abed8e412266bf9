// Requests that HTTP/2 refuses for their headers: each is an event; complete calls never are.
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { listenGrpc } from '../../src/adapters/grpc/main.ts';
import type { SidecallEvent } from '../../src/base/events.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';
import { implement } from '../../src/rpc/serving/implementation.ts';
import { until } from '../support/contract.ts';

const Desk = service('Desk', { add: unary<number, number>() });
const [headers, settings, goaway, continuation] = [1, 4, 7, 9];
const endsStream = 1;
const endsHeaders = 4;

function frame(type: number, flags: number, stream: number, body: Buffer): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(body.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, body]);
}

/** A block of headers, each as a literal without an index (RFC 7541, 6.2.2). */
function block(fields: Record<string, string | undefined>): Buffer {
  const literals = Object.entries(fields).flatMap(([name, value]) =>
    value === undefined ? [] : [[0, name.length], name, [value.length], value],
  );
  return Buffer.concat(literals.map((part) => Buffer.from(part as string)));
}

/** The fields of a call of gRPC, with the given changes. */
function fields(changes: Record<string, string | undefined>): Record<string, string | undefined> {
  return {
    ':method': 'POST',
    ':scheme': 'http',
    ':path': '/Desk/add',
    ':authority': 'localhost',
    'content-type': 'application/grpc+json',
    te: 'trailers',
    ...changes,
  };
}

async function speaker(path: string): Promise<Socket> {
  const socket = connect(path);
  socket.on('error', () => undefined).resume();
  socket.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
  socket.write(frame(settings, 0, 0, Buffer.alloc(0)));
  await once(socket, 'data');
  return socket;
}

async function listening() {
  const events: SidecallEvent[] = [];
  const listener = await listenGrpc({
    services: [implement(Desk, { add: (number) => number + 1 })],
    onEvent: (event) => events.push(event),
  });
  return { listener, path: listener.path as string, events };
}

const refused: [string, Record<string, string | undefined>][] = [
  ['an empty authority', { ':authority': '' }],
  ['no authority', { ':authority': undefined }],
  ['the path of the socket', { ':authority': '/run/app.sock' }],
  ['an encoded path', { ':authority': '%2Frun%2Fapp sock' }],
  ['no path', { ':path': undefined }],
  ['a header of HTTP/1', { connection: 'keep-alive' }],
];

describe('a request that HTTP/2 refuses', () => {
  it.each(refused)('is an event when the client ends: %s', async (_, changes) => {
    const { listener, path, events } = await listening();
    const socket = await speaker(path);
    const whole = endsHeaders | endsStream;
    for (const stream of [1, 3, 5]) {
      socket.write(frame(headers, whole, stream, block(fields(changes))));
      await once(socket, 'data');
    }
    socket.end();
    await until(() => events.length > 0);
    await listener.close();
    expect(events).toEqual([
      expect.objectContaining({
        type: 'adapter-failed',
        error: expect.objectContaining({
          code: 'ERR_SIDECALL_PROTOCOL',
          message: expect.stringContaining('authority to localhost'),
        }),
        peer: expect.objectContaining({ pid: process.pid }),
      }),
    ]);
  });

  it('is an event of a client that says goaway before it ends, as grpc-java does', async () => {
    const { listener, path, events } = await listening();
    const socket = await speaker(path);
    const request = block(fields({ ':authority': '/run/app.sock' }));
    socket.write(frame(headers, endsHeaders | endsStream, 3, request));
    await once(socket, 'data');
    socket.end(frame(goaway, 0, 0, Buffer.alloc(8)));
    await until(() => events.length > 0);
    await listener.close();
    expect(events).toEqual([expect.objectContaining({ type: 'adapter-failed' })]);
  });

  it('is none of a client that says goaway right behind a complete call', async () => {
    const { listener, path, events } = await listening();
    const socket = await speaker(path);
    const request = frame(headers, endsHeaders | endsStream, 1, block(fields({})));
    socket.end(Buffer.concat([request, frame(goaway, 0, 0, Buffer.alloc(8))]));
    await once(socket, 'close');
    await listener.close();
    expect(events).toEqual([]);
  });

  it('is an event of a client that stays, too', async () => {
    const { listener, path, events } = await listening();
    const socket = await speaker(path);
    socket.write(frame(headers, endsHeaders | endsStream, 1, block(fields({ ':authority': '' }))));
    await until(() => events.length > 0);
    expect(events[0]).toMatchObject({ type: 'adapter-failed' });
    socket.destroy();
    await listener.close();
  });

  it('is none of a client whose calls are complete, in one frame or in parts', async () => {
    const { listener, path, events } = await listening();
    const socket = await speaker(path);
    socket.write(frame(headers, endsHeaders | endsStream, 1, block(fields({}))));
    await once(socket, 'data');
    const { length } = block(fields({}));
    const parts = [0, 10, 40, length - 1].map((from, at, all) =>
      block(fields({})).subarray(from, all[at + 1] ?? length),
    );
    for (const [at, part] of parts.entries()) {
      const type = at === 0 ? headers : continuation;
      const ends = at === parts.length - 1 ? endsHeaders : 0;
      socket.write(frame(type, at === 0 ? endsStream : ends, 3, part));
      await new Promise(setImmediate);
    }
    await once(socket, 'data');
    socket.end();
    await once(socket, 'close');
    await listener.close();
    expect(events).toEqual([]);
  });
});
