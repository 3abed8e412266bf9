// TLS, HTTP/1.1 and HTTP/2 in more detail, over sockets and over byte streams of a session
// alike.

import { once } from 'node:events';
import { createServer, request as httpRequest, type IncomingMessage } from 'node:http';
import { connect as connectHttp2, createServer as createHttp2Server } from 'node:http2';
import { buffer, text } from 'node:stream/consumers';
import {
  connect as connectTls,
  createSecureContext,
  TLSSocket,
  type TLSSocketOptions,
  type ConnectionOptions as TlsOptions,
} from 'node:tls';
import { describe, expect, it } from 'vitest';
import { turns } from '../support/contract.ts';
import { any, cert, closed, key } from '../support/conversations.ts';
import { type End, socketPairs } from '../support/socket-pairs.ts';

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
    expect(theirs.getPeerCertificate().subject.CN).toBe('localhost');
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
