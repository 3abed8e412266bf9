// SPDX-License-Identifier: MIT
// Bounds the connections that have not shown the token, apart from the time-outs of the server.
import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { UnprovenConnections } from '../../../src/cli/web/unproven-connections.ts';
import { until } from '../../support/contract.ts';

let server: Server;
let unproven: UnprovenConnections;
let clients: Socket[];
/** The connections as the server has them, in the order in which they came. */
let accepted: Socket[];

beforeEach(async () => {
  clients = [];
  accepted = [];
  // Without time-outs: what ends a connection is the bound.
  server = createServer({ requestTimeout: 0, headersTimeout: 0, keepAliveTimeout: 0 });
  unproven = new UnprovenConnections(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});

afterEach(() => {
  for (const socket of [...clients, ...accepted]) socket.destroy();
  server.close();
});

/** Opens connections, one after the other. */
async function open(count: number): Promise<void> {
  const { port } = server.address() as AddressInfo;
  for (let at = 0; at < count; at += 1) {
    const taken = new Promise<Socket>((resolve) => server.once('connection', resolve));
    clients.push(connect(port, '127.0.0.1').on('error', () => undefined));
    accepted.push(await taken);
  }
}

/** Which of the connections were ended. */
const ended = (): number[] => accepted.flatMap(({ destroyed }, at) => (destroyed ? [at] : []));

it('ends the oldest of 65, and of each further one', async () => {
  await open(64);
  expect(ended()).toEqual([]);
  for (let more = 1; more <= 100; more += 1) {
    await open(1);
    expect(ended()).toEqual(Array.from({ length: more }, (_, at) => at));
  }
});

it('counts no connection that has shown the token, and none that has closed', async () => {
  await open(60);
  for (const socket of accepted) unproven.onProven(socket);
  await open(20 + 40);
  for (const socket of clients.slice(80)) socket.destroy();
  await until(() => ended().length === 40);
  const gone = ended();
  await open(44);
  expect(ended()).toEqual(gone);
  await open(1);
  expect(ended()).toEqual([60, ...gone]);
});
