// SPDX-License-Identifier: MIT
// Bounds the connections that have not shown the token, apart from the time-outs of the server.
import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { UnprovenConnections } from '../../../src/cli/web/unproven-connections.ts';
import { until } from '../../support/contract.ts';

let server: Server;
let unproven: UnprovenConnections;
let sockets: Socket[];

beforeEach(async () => {
  sockets = [];
  // Without time-outs: what ends a connection is the bound.
  server = createServer({ requestTimeout: 0, headersTimeout: 0, keepAliveTimeout: 0 });
  unproven = new UnprovenConnections(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});

afterEach(() => {
  for (const socket of sockets) socket.destroy();
  server.closeAllConnections();
  server.close();
});

/** Opens connections, one after the other: the server takes them in this order. */
async function open(count: number): Promise<Socket[]> {
  const { port } = server.address() as AddressInfo;
  const opened: Socket[] = [];
  for (let at = 0; at < count; at += 1) {
    const taken = new Promise((resolve) => server.once('connection', resolve));
    const socket = connect(port, '127.0.0.1').on('error', () => undefined);
    sockets.push(socket.resume());
    opened.push(socket);
    await taken;
  }
  return opened;
}

const isOpen = (socket: Socket): boolean => !socket.closed;

it('ends the oldest of 65, and of each further one', async () => {
  const all = await open(200);
  await until(() => all.filter(isOpen).length === 64);
  expect(all.slice(-64).filter(isOpen)).toHaveLength(64);
});

it('counts no connection that has shown the token, and none that has closed', async () => {
  const accepted: Socket[] = [];
  server.on('connection', (socket) => accepted.push(socket));
  const page = await open(60);
  for (const socket of accepted) unproven.onProven(socket);
  const first = await open(20);
  const gone = await open(40);
  for (const socket of gone) socket.destroy();
  await until(() => accepted.filter(isOpen).length === 80);
  const others = [...first, ...(await open(44))];
  const last = await open(1);
  await until(() => !isOpen(others[0] as Socket));
  expect([...page, ...others.slice(1), ...last].filter(isOpen)).toHaveLength(60 + 63 + 1);
});
