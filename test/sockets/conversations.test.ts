// Protocols of other people, further into their specifications: the same for sockets and for byte
// streams.
import { once } from 'node:events';
import { createServer, request as httpRequest, type IncomingMessage } from 'node:http';
import { connect as connectHttp2, createServer as createHttp2Server } from 'node:http2';
import type { Duplex } from 'node:stream';
import { buffer, text } from 'node:stream/consumers';
import {
  connect as connectTls,
  createSecureContext,
  TLSSocket,
  type TLSSocketOptions,
  type ConnectionOptions as TlsOptions,
} from 'node:tls';
import { Aedes } from 'aedes';
import { MqttClient } from 'mqtt';
import ssh2 from 'ssh2';
import { describe, expect, it } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import { makeCertificate } from '../support/certificate.ts';
import { turns, until } from '../support/contract.ts';
import { type End, socketPairs } from '../support/socket-pairs.ts';

// biome-ignore lint/suspicious/noExplicitAny: each protocol has a type of its own for a socket
const any = (stream: Duplex): any => stream;

const { key, cert, hostKey } = makeCertificate();

const closed = async (stream: Duplex): Promise<void> => {
  if (!stream.closed) await once(stream, 'close');
};

describe.each(socketPairs)('TLS over $kind', ({ open }) => {
  const shake = async (
    near: End,
    far: End,
    client: TlsOptions = {},
    server: TLSSocketOptions = {},
  ) => {
    const secureContext = createSecureContext({ key, cert, ca: cert });
    const theirs = new TLSSocket(any(far), { isServer: true, secureContext, ...server });
    const ours = connectTls({
      socket: any(near),
      ca: cert,
      checkServerIdentity: () => undefined,
      ...client,
    });
    await once(ours, 'secureConnect');
    return { ours, theirs };
  };

  it.each(['TLSv1.2', 'TLSv1.3'] as const)('speaks %s', async (version) => {
    await using pair = await open();
    const versions = { minVersion: version, maxVersion: version };
    const { ours, theirs } = await shake(pair.near, pair.far, versions);
    expect(ours.getProtocol()).toBe(version);
    theirs.end('secret');
    expect(await text(ours)).toBe('secret');
  });

  it('agrees on a protocol and a name', async () => {
    await using pair = await open();
    const { ours, theirs } = await shake(
      pair.near,
      pair.far,
      { ALPNProtocols: ['two', 'one'], servername: 'local' },
      { ALPNProtocols: ['one'] },
    );
    ours.write('x');
    await once(theirs, 'data');
    expect(ours.alpnProtocol).toBe('one');
    expect((theirs as TLSSocket & { servername?: string }).servername).toBe('local');
  });

  it('asks for the certificate of the client', async () => {
    await using pair = await open();
    const { ours, theirs } = await shake(
      pair.near,
      pair.far,
      { key, cert },
      { requestCert: true, rejectUnauthorized: false },
    );
    ours.write('x');
    await once(theirs, 'data');
    expect(theirs.getPeerCertificate().subject.CN).toBe('local');
  });

  it('ends what speaks no TLS', async () => {
    await using pair = await open();
    const secureContext = createSecureContext({ key, cert });
    const theirs = new TLSSocket(any(pair.far), { isServer: true, secureContext });
    const failed = new Promise((resolve) => theirs.once('error', resolve));
    pair.near.resume().write('GET / HTTP/1.1\r\n\r\n');
    expect(await failed).toMatchObject({ code: 'ERR_SSL_HTTP_REQUEST' });
    theirs.destroy();
    await closed(pair.near);
  });

  it('holds a writer back while nobody reads', async () => {
    await using pair = await open();
    const { ours, theirs } = await shake(pair.near, pair.far);
    const chunk = Buffer.alloc(100_000, 1);
    let sent = 0;
    while (ours.write(chunk)) sent += chunk.byteLength;
    for (let at = 0; at < 50; at += 1) ours.write(chunk);
    sent += 51 * chunk.byteLength;
    ours.end();
    expect(await buffer(theirs)).toHaveLength(sent);
  });
});

describe.each(socketPairs)('HTTP/1.1 over $kind', ({ open }) => {
  it('answers requests that came at once in their order', async () => {
    await using pair = await open();
    const server = createServer(async (request, response) => {
      if (request.url === '/0') await turns(5); // the first takes longest
      response.end(request.url);
    });
    server.emit('connection', pair.far);
    const head = (at: number) => `GET /${at} HTTP/1.1\r\nHost: local\r\n`;
    pair.near.write(`${head(0)}\r\n${head(1)}\r\n${head(2)}Connection: close\r\n\r\n`);
    const answers = await text(pair.near);
    expect(answers.match(/^\/\d/gm)).toEqual(['/0', '/1', '/2']);
  });

  it('waits for leave to send a body', async () => {
    await using pair = await open();
    const server = createServer(async (request, response) => response.end(await text(request)));
    server.emit('connection', pair.far);
    const request = httpRequest({
      method: 'PUT',
      headers: { expect: '100-continue' },
      createConnection: () => any(pair.near),
    });
    request.flushHeaders();
    await once(request, 'continue');
    request.end('the body');
    const [response] = await once(request, 'response');
    expect(await text(response)).toBe('the body');
  });

  it('hands a connection over to what it is upgraded to', async () => {
    await using pair = await open();
    const server = createServer();
    server.on('upgrade', (_request, socket, head: Buffer) => {
      socket.write(
        'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n',
      );
      socket.write(head);
      socket.pipe(socket);
    });
    server.emit('connection', pair.far);
    const request = httpRequest({
      headers: { connection: 'upgrade', upgrade: 'echo' },
      createConnection: () => any(pair.near),
    });
    request.end();
    const [, socket, head] = await once(request, 'upgrade');
    socket.unshift(head);
    socket.write('over and ');
    socket.end('back');
    expect(await text(socket)).toBe('over and back');
  });

  it('tunnels', async () => {
    await using pair = await open();
    const behind = await pair.more();
    behind.far.pipe(behind.far);
    const server = createServer();
    server.on('connect', (_request, socket) => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      socket.pipe(behind.near).pipe(socket);
    });
    server.emit('connection', pair.far);
    const request = httpRequest({
      method: 'CONNECT',
      path: 'local:1',
      createConnection: () => any(pair.near),
    });
    request.end();
    const [, socket] = await once(request, 'connect');
    socket.write('through');
    expect(String((await once(socket, 'data'))[0])).toBe('through');
    socket.destroy();
  });

  it('tells a reader that the answer was cut off', async () => {
    await using pair = await open();
    const server = createServer((_request, response) => {
      response.writeHead(200, { 'content-length': 1_000 });
      response.write('half of it', () => response.destroy());
    });
    server.emit('connection', pair.far);
    const request = httpRequest({ createConnection: () => any(pair.near) });
    request.end();
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    await expect(text(response)).rejects.toMatchObject({ code: 'ECONNRESET' });
  });

  it('refuses a head that is too long with 431', async () => {
    await using pair = await open();
    const server = createServer({ maxHeaderSize: 1_024 }, (_request, response) => response.end());
    server.emit('connection', pair.far);
    pair.near.write(`GET / HTTP/1.1\r\nX-Long: ${'x'.repeat(2_000)}\r\n\r\n`);
    expect(await text(pair.near)).toMatch(/^HTTP\/1.1 431 /);
  });

  it('ends a connection on which nothing moves', async () => {
    await using pair = await open();
    const server = createServer(() => undefined);
    server.setTimeout(50);
    server.emit('connection', pair.far);
    const request = httpRequest({ createConnection: () => any(pair.near) });
    request.end();
    expect((await once(request, 'error'))[0]).toMatchObject({ code: 'ECONNRESET' });
  });

  it('carries trailers', async () => {
    await using pair = await open();
    const server = createServer((_request, response) => {
      response.writeHead(200, { trailer: 'x-sum' });
      response.write('some');
      response.addTrailers({ 'x-sum': '42' });
      response.end();
    });
    server.emit('connection', pair.far);
    const request = httpRequest({ createConnection: () => any(pair.near) });
    request.end();
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    expect([await text(response), response.trailers]).toEqual(['some', { 'x-sum': '42' }]);
  });
});

describe.each(socketPairs)('HTTP/2 over $kind', ({ open }) => {
  const meet = async (near: End, far: End) => {
    const server = createHttp2Server();
    server.on('stream', (stream, headers) => {
      stream.on('error', () => undefined);
      if (stream.destroyed) return; // cancelled before it was looked at
      stream.respond({ ':status': 200 });
      if (headers[':path'] === '/away') stream.session?.goaway(11, 0, Buffer.from('calm'));
      if (headers[':path'] !== '/hang') stream.pipe(stream);
    });
    server.emit('connection', far);
    const client = connectHttp2('http://local', { createConnection: () => any(near) });
    await once(client, 'connect');
    return client;
  };

  it('pings', async () => {
    await using pair = await open();
    const client = await meet(pair.near, pair.far);
    const payload = Buffer.from('12345678');
    const echoed = new Promise<Buffer>((resolve) => {
      client.ping(payload, (_error, _ms, back) => resolve(back));
    });
    expect(await echoed).toEqual(payload);
    client.close();
  });

  it('echoes megabytes beside requests that hang, and one that is cancelled', async () => {
    await using pair = await open();
    const client = await meet(pair.near, pair.far);
    const hanging = client.request({ ':path': '/hang', ':method': 'POST' });
    const cancelled = client.request({ ':path': '/hang', ':method': 'POST' });
    cancelled.on('error', () => undefined);
    cancelled.close(8); // NGHTTP2_CANCEL
    const upload = client.request({ ':path': '/', ':method': 'POST' });
    upload.end(Buffer.alloc(3_000_000, 7));
    expect(await buffer(upload)).toHaveLength(3_000_000);
    hanging.on('error', () => undefined).destroy();
    client.close();
    await closed(pair.near);
  });

  it('hears why the other side goes away', async () => {
    await using pair = await open();
    const client = await meet(pair.near, pair.far);
    client.on('error', () => undefined);
    const heard = once(client, 'goaway');
    client.request({ ':path': '/away' }).on('error', () => undefined);
    const [code, , words] = await heard;
    expect([code, String(words)]).toEqual([11, 'calm']);
    client.destroy();
  });
});

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
