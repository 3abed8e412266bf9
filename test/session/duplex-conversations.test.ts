// WebSocket, MQTT and SSH in more detail, over sockets and over byte streams of a session
// alike.

import { once } from 'node:events';
import { createServer } from 'node:http';
import { buffer, text } from 'node:stream/consumers';
import { Aedes } from 'aedes';
import { MqttClient } from 'mqtt';
import ssh2 from 'ssh2';
import { describe, expect, it } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import { turns, until } from '../support/contract.ts';
import { any, closed, hostKey } from '../support/conversations.ts';
import { type End, socketPairs } from '../support/socket-pairs.ts';

describe.each(socketPairs)('WebSocket over $kind', ({ open }) => {
  const meet = async (near: End, far: End, options: object) => {
    const http = createServer();
    const sockets = new WebSocketServer({ server: http, ...options });
    const accepted = once(sockets, 'connection');
    http.emit('connection', far);
    const client = new WebSocket('ws://local/', { createConnection: () => any(near) });
    const [[server]] = await Promise.all([accepted, once(client, 'open')]);
    return { client, server: server as WebSocket };
  };

  it('carries messages in pieces, compressed', async () => {
    await using pair = await open();
    const { client, server } = await meet(pair.near, pair.far, { perMessageDeflate: true });
    const heard = once(server, 'message');
    client.send('a'.repeat(100_000), { fin: false, compress: true });
    client.send('b'.repeat(100_000), { fin: true, compress: true });
    const message = String((await heard)[0]);
    expect(message).toBe('a'.repeat(100_000) + 'b'.repeat(100_000));
    expect(pair.far.bytesRead).toBeLessThan(100_000);
    client.close();
    await closed(pair.far);
  });

  it('refuses what is too long with its code', async () => {
    await using pair = await open();
    const { client, server } = await meet(pair.near, pair.far, { maxPayload: 1_000 });
    server.on('error', () => undefined);
    client.send('x'.repeat(2_000));
    expect((await once(client, 'close'))[0]).toBe(1009);
  });

  it('waits for a reader that stands still', async () => {
    await using pair = await open();
    const { client, server } = await meet(pair.near, pair.far, {});
    let heard = 0;
    server.on('message', () => {
      heard += 1;
    });
    server.pause();
    for (let at = 0; at < 50; at += 1) client.send(Buffer.alloc(200_000));
    await turns(20);
    expect(client.bufferedAmount).toBeGreaterThan(0);
    server.resume();
    await until(() => heard === 50);
    expect(client.bufferedAmount).toBe(0);
    client.close();
  });
});

describe.each(socketPairs)('MQTT over $kind', ({ open }) => {
  const join = async (broker: Aedes, near: End, far: End, options: object = {}) => {
    broker.handle(any(far));
    const client = new MqttClient(() => any(near), { reconnectPeriod: 0, ...options });
    await once(client as never, 'connect');
    return client;
  };
  const leave = async (broker: Aedes, ...clients: MqttClient[]): Promise<void> => {
    for (const client of clients) await client.endAsync();
    await new Promise<void>((resolve) => broker.close(() => resolve()));
  };

  it('keeps a message for who subscribes later, and delivers it once', async () => {
    await using pair = await open();
    const broker = await Aedes.createBroker();
    const first = await join(broker, pair.near, pair.far);
    await first.publishAsync('state', 'on', { qos: 2, retain: true });
    const next = await pair.more();
    const second = await join(broker, next.near, next.far);
    const heard: string[] = [];
    second.on('message', (_topic, payload) => heard.push(String(payload)));
    await second.subscribeAsync('state', { qos: 2 });
    await until(() => heard.length > 0);
    await first.publishAsync('state', 'off', { qos: 2 });
    await until(() => heard.length > 1);
    expect(heard).toEqual(['on', 'off']);
    await leave(broker, first, second);
  });

  it('speaks the last will of a client that is cut off', async () => {
    await using pair = await open();
    const broker = await Aedes.createBroker();
    const watcher = await join(broker, pair.near, pair.far);
    await watcher.subscribeAsync('wills');
    const heard = once(watcher as never, 'message');
    const next = await pair.more();
    const will = { topic: 'wills', payload: Buffer.from('gone'), qos: 0, retain: false };
    const client = await join(broker, next.near, next.far, { will });
    next.near.destroy();
    expect(String((await heard)[1])).toBe('gone');
    await client.endAsync(true);
    await leave(broker, watcher);
  });
});

describe.each(socketPairs)('SSH over $kind', ({ open }) => {
  const meet = async (near: End, far: End) => {
    const server = new ssh2.Server({ hostKeys: [hostKey] });
    server.on('connection', (connection) => {
      connection.on('error', () => undefined);
      connection.on('authentication', (context) => context.accept());
      connection.on('tcpip', (accept) => {
        const stream = accept();
        stream.pipe(stream);
      });
      connection.on('session', (accept) => {
        const session = accept();
        session.on('shell', (acceptShell) => {
          const stream = acceptShell();
          stream.stderr.write('ready');
          stream.pipe(stream);
        });
      });
    });
    server.injectSocket(any(far));
    const client = new ssh2.Client();
    client.connect({ sock: any(near), username: 'me', password: 'x' });
    await once(client, 'ready');
    return client;
  };

  it('runs a shell with its three streams', async () => {
    await using pair = await open();
    const client = await meet(pair.near, pair.far);
    const stream = await new Promise<ssh2.ClientChannel>((resolve, reject) => {
      client.shell(false, (error, channel) => (error ? reject(error) : resolve(channel)));
    });
    expect(String((await once(stream.stderr, 'data'))[0])).toBe('ready');
    stream.end(Buffer.alloc(500_000, 65));
    expect(await buffer(stream)).toHaveLength(500_000);
    client.end();
    await closed(pair.far);
  });

  it('forwards a connection', async () => {
    await using pair = await open();
    const client = await meet(pair.near, pair.far);
    const stream = await new Promise<ssh2.ClientChannel>((resolve, reject) => {
      client.forwardOut('a', 1, 'b', 2, (error, channel) =>
        error ? reject(error) : resolve(channel),
      );
    });
    stream.end('forwarded');
    expect(await text(stream)).toBe('forwarded');
    client.end();
    await closed(pair.far);
  });
});
