// The published types, strictly, as a project without skipLibCheck sees them.
import type * as grpc from '@grpc/grpc-js';
import {
  connect,
  type HelperState,
  type Liveness,
  listen,
  type Session,
  serverStream,
  service,
  spawnHelper,
  unary,
} from 'sidecall';
import { attachListener, peerOf, serveGrpc } from 'sidecall/grpc';
import { jsonrpcTransport } from 'sidecall/jsonrpc';
import { protobufService } from 'sidecall/protobuf';
import { createSessionPair } from 'sidecall/testing';
import { createMessageConnection, type MessageConnection } from 'vscode-jsonrpc/node';

const Sum = service('Sum', { add: unary<{ a: number; b: number }, { sum: number }>() });
const Count = service('Count', { to: serverStream<{ most: number }, number>() });

export async function add(session: Session): Promise<number> {
  return (await session.client(Sum).add({ a: 1, b: 2 })).sum;
}

export async function count(open: Session): Promise<number[]> {
  const all: number[] = [];
  for await (const number of open.client(Count).to({ most: 3 })) all.push(number);
  return all;
}

export async function supervise(): Promise<string[]> {
  const helper = await spawnHelper('node', ['x'], { restart: { firstMs: 10, maxRestarts: 5 } });
  const states: HelperState['state'][] = [];
  for await (const { state } of helper.states()) states.push(state);
  const { loop, busyForMs }: Liveness = await helper.session.liveness({ waitMs: 10 });
  const roundTripMs: number = await helper.session.ping({ timeoutMs: 100 });
  return [...states, loop, `${busyForMs} ${roundTripMs}`];
}

export function languageServer(session: Session): MessageConnection {
  const { reader, writer } = jsonrpcTransport(session);
  return createMessageConnection(reader, writer);
}

export async function overGrpc(
  server: grpc.Server,
  reflected: Parameters<typeof protobufService>[0],
) {
  const uid = (call: grpc.ServerUnaryCall<Buffer, Buffer>): number | undefined => peerOf(call)?.uid;
  serveGrpc(
    server,
    protobufService(reflected as never),
    {},
    {
      authenticate: ({ metadata }) =>
        metadata.authorization === 'x' ? { origin: 'secret', name: 'app' } : undefined,
    },
  );
  await attachListener(server, await listen({ protocol: 'plain' }));
  return uid;
}

export const session: Promise<Session> = connect({ path: 'x' });
export const pair = createSessionPair();
