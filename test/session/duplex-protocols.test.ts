// Third-party protocols, unmodified, over sockets and over byte streams of a session alike.
import { once } from 'node:events';
import { Agent, createServer, request as httpRequest, type RequestOptions } from 'node:http';
import { connect as connectHttp2, createServer as createHttp2Server } from 'node:http2';
import { createConnection } from 'node:net';
import type { Duplex } from 'node:stream';
import { text } from 'node:stream/consumers';
import { connect as connectTls, createSecureContext, TLSSocket } from 'node:tls';
import { Aedes } from 'aedes';
import { MqttClient } from 'mqtt';
import ssh2 from 'ssh2';
import { describe, expect, it } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import { localhostCertificate, makeHostKey } from '../support/certificates.ts';
import { until } from '../support/contract.ts';
import { type End, socketPairs } from '../support/socket-pairs.ts';

// biome-ignore lint/suspicious/noExplicitAny: each protocol has a type of its own for a socket
const any = (stream: Duplex): any => stream;

const { key, cert } = localhostCertificate;
const hostKey = makeHostKey();

/** The answer to a request over a connection of its own. */
async function ask(
  near: End,
  options: RequestOptions,
  body?: string,
): Promise<{ status: number | undefined; body: string }> {
  const request = httpRequest({ ...options, createConnection: () => any(near) });
  request.end(body);
  const [response] = await once(request, 'response');
  return { status: response.statusCode, body: await text(response) };
}

const closed = async (stream: Duplex): Promise<void> => {
  if (!stream.closed) await once(stream, 'close');
};

describe.each(socketPairs)('over $kind', ({ open }) => {
  describe('TLS', () => {
    const shake = (near: End, far: End) => {
      const server = new TLSSocket(any(far), {
        isServer: true,
        secureContext: createSecureContext({ key, cert }),
      });
      const client = connectTls({
        socket: any(near),
        ca: cert,
        checkServerIdentity: () => undefined,
      });
      return { server, client };
    };

    it('shakes hands, carries megabytes, and ends in order', async () => {
      await using pair = await open();
      const { server, client } = shake(pair.near, pair.far);
      server.on('data', (bytes) => server.write(bytes));
      await once(client, 'secureConnect');
      let got = 0;
      client.on('data', (bytes: Buffer) => {
        got += bytes.byteLength;
      });
      client.write(Buffer.alloc(2_000_000, 5));
      await until(() => got === 2_000_000);
      client.end();
      await Promise.all([closed(client), closed(server)]);
    });

    it('is over at one end when the other is destroyed', async () => {
      await using pair = await open();
      const { server, client } = shake(pair.near, pair.far);
      client.resume();
      await once(client, 'secureConnect');
      server.destroy();
      await closed(client);
    });

    it('refuses a certificate that it does not know', async () => {
      await using pair = await open();
      new TLSSocket(any(pair.far), {
        isServer: true,
        secureContext: createSecureContext({ key, cert }),
      }).on('error', () => undefined);
      const client = connectTls({ socket: any(pair.near) });
      const [error] = await once(client, 'error');
      expect(error).toMatchObject({ code: 'DEPTH_ZERO_SELF_SIGNED_CERT' });
      await closed(pair.far.resume());
    });
  });

  describe('HTTP/1.1', () => {
    const serve = (far: End): ReturnType<typeof createServer> => {
      const server = createServer((request, response) => {
        if (request.url === '/hang-up') return void request.socket.destroy();
        const answer = (body: string): void => {
          response.setHeader('x-url', request.url ?? '');
          response.end(`${request.method} ${body}`);
        };
        text(request).then(answer, () => undefined); // a client that hung up gets no answer
      });
      server.emit('connection', far);
      return server;
    };

    it('answers GET and POST', async () => {
      await using pair = await open();
      serve(pair.far);
      expect(await ask(pair.near, { path: '/a' })).toEqual({ status: 200, body: 'GET ' });
      const next = await pair.more();
      serve(next.far);
      const body = 'x'.repeat(300_000);
      const options = { method: 'POST', path: '/b' };
      expect(await ask(next.near, options, body)).toEqual({ status: 200, body: `POST ${body}` });
    });

    it('keeps a connection alive for the next request', async () => {
      await using pair = await open();
      serve(pair.far);
      const agent = new Agent({ keepAlive: true, maxSockets: 1 });
      let made = 0;
      any(agent as unknown as Duplex).createConnection = () => {
        made += 1;
        return pair.near;
      };
      for (let round = 0; round < 3; round += 1) {
        const request = httpRequest({ agent, path: `/${round}` });
        request.end();
        const [response] = await once(request, 'response');
        expect(await text(response)).toBe('GET ');
      }
      expect(made).toBe(1);
      agent.destroy();
      await closed(pair.near);
    });

    it('answers what is no request with 400, and closes', async () => {
      await using pair = await open();
      serve(pair.far);
      pair.near.write('this is no HTTP\r\n\r\n');
      expect(await text(pair.near)).toMatch(/^HTTP\/1.1 400 /);
      await closed(pair.far);
    });

    it('tells a client whose server hangs up, and a server whose client does', async () => {
      await using pair = await open();
      const server = serve(pair.far);
      const request = httpRequest({ path: '/hang-up', createConnection: () => any(pair.near) });
      request.end();
      const [error] = await once(request, 'error');
      expect(error).toMatchObject({ code: 'ECONNRESET' });
      const next = await pair.more();
      const aborted = new Promise<void>((resolve) => {
        server.once('request', (incoming) => incoming.on('error', () => resolve()));
      });
      const given = httpRequest({ method: 'POST', createConnection: () => any(next.near) });
      given.on('error', () => undefined);
      server.emit('connection', next.far);
      given.write('half of it');
      await until(() => next.far.bytesRead > 0);
      given.destroy();
      await aborted;
    });

    it('streams in chunks', async () => {
      await using pair = await open();
      const server = createServer(async (_request, response) => {
        for (let at = 0; at < 50; at += 1) {
          if (!response.write('y'.repeat(10_000))) await once(response, 'drain');
        }
        response.end();
      });
      server.emit('connection', pair.far);
      expect((await ask(pair.near, { path: '/' })).body).toHaveLength(500_000);
    });
  });

  describe('HTTP/2', () => {
    const serve = (far: End): ReturnType<typeof createHttp2Server> => {
      const server = createHttp2Server();
      server.on('stream', (stream, headers) => {
        stream.respond({ ':status': 200 });
        stream.end(`you asked for ${headers[':path']}`);
      });
      server.emit('connection', far);
      return server;
    };
    const get = async (client: ReturnType<typeof connectHttp2>, path: string): Promise<string> => {
      const stream = client.request({ ':path': path });
      stream.setEncoding('utf8');
      return text(stream);
    };

    it('answers many requests at once, and closes in order', async () => {
      await using pair = await open();
      serve(pair.far);
      const client = connectHttp2('http://local', { createConnection: () => any(pair.near) });
      const paths = Array.from({ length: 50 }, (_, at) => `/${at}`);
      expect(await Promise.all(paths.map((path) => get(client, path)))).toEqual(
        paths.map((path) => `you asked for ${path}`),
      );
      client.close();
      await Promise.all([closed(pair.near), closed(pair.far)]);
    });

    it('is over at the server when the client is destroyed', async () => {
      await using pair = await open();
      const server = serve(pair.far);
      const sessions: Promise<unknown>[] = [];
      server.on('session', (session) => sessions.push(once(session, 'close')));
      const client = connectHttp2('http://local', { createConnection: () => any(pair.near) });
      expect(await get(client, '/')).toBe('you asked for /');
      client.destroy();
      await closed(pair.far);
      await Promise.all(sessions);
    });

    it('is over at the client when the server closes', async () => {
      await using pair = await open();
      const server = createHttp2Server();
      server.on('session', (session) => {
        session.once('stream', (stream) => {
          stream.respond({ ':status': 204 }, { endStream: true });
          session.close();
        });
      });
      server.emit('connection', pair.far);
      const client = connectHttp2('http://local', { createConnection: () => any(pair.near) });
      client.request({ ':path': '/' }).resume();
      await once(client, 'close');
    });
  });

  describe('WebSocket', () => {
    const meet = async (near: End, far: End): Promise<{ client: WebSocket; server: WebSocket }> => {
      const http = createServer();
      const sockets = new WebSocketServer({ server: http });
      const accepted = once(sockets, 'connection');
      http.emit('connection', far);
      const client = new WebSocket('ws://local/', { createConnection: () => any(near) });
      const [[server]] = await Promise.all([accepted, once(client, 'open')]);
      return { client, server };
    };

    it('carries texts, bytes and pings, and closes with a code', async () => {
      await using pair = await open();
      const { client, server } = await meet(pair.near, pair.far);
      server.on('message', (data, isBinary) => server.send(data, { binary: isBinary }));
      client.send('a text');
      expect(String((await once(client, 'message'))[0])).toBe('a text');
      client.send(Buffer.alloc(200_000, 3));
      expect((await once(client, 'message'))[0]).toHaveLength(200_000);
      client.ping();
      await once(client, 'pong');
      client.close(4001, 'enough');
      const [code, reason] = await once(server, 'close');
      expect([code, String(reason)]).toEqual([4001, 'enough']);
      await closed(pair.near);
    });

    it('tells of a peer that terminates', async () => {
      await using pair = await open();
      const { client, server } = await meet(pair.near, pair.far);
      server.terminate();
      expect((await once(client, 'close'))[0]).toBe(1006);
    });
  });

  describe('MQTT', () => {
    const meet = async (near: End, far: End) => {
      const broker = await Aedes.createBroker();
      broker.handle(any(far));
      const client = new MqttClient(() => any(near), { reconnectPeriod: 0 });
      await once(client as never, 'connect');
      return { broker, client };
    };

    it('publishes, subscribes, and disconnects without an error', async () => {
      await using pair = await open();
      const { broker, client } = await meet(pair.near, pair.far);
      await client.subscribeAsync('news', { qos: 1 });
      const heard = once(client as never, 'message');
      await client.publishAsync('news', 'a message', { qos: 1 });
      const [topic, payload] = await heard;
      expect([topic, String(payload)]).toEqual(['news', 'a message']);
      await client.endAsync();
      await Promise.all([closed(pair.near), closed(pair.far)]);
      await new Promise<void>((resolve) => broker.close(() => resolve()));
    });

    it('tells a client whose broker closes', async () => {
      await using pair = await open();
      const { broker, client } = await meet(pair.near, pair.far);
      const over = once(client as never, 'close');
      await new Promise<void>((resolve) => broker.close(() => resolve()));
      await over;
      await client.endAsync(true);
    });
  });

  describe('SSH', () => {
    const meet = (near: End, far: End, password: string) => {
      const server = new ssh2.Server({ hostKeys: [hostKey] });
      server.on('connection', (connection) => {
        connection.on('error', () => undefined);
        connection.on('authentication', (context) => {
          if (context.method === 'password' && context.password === 'right') context.accept();
          else context.reject(['password']);
        });
        connection.on('session', (accept) => {
          accept().on('exec', (acceptExec, _reject, { command }) => {
            const stream = acceptExec();
            stream.write(`ran ${command}`);
            stream.exit(3);
            stream.end();
          });
        });
      });
      server.injectSocket(any(far));
      const client = new ssh2.Client();
      client.connect({ sock: any(near), username: 'me', password });
      return client;
    };

    it('runs a command, and ends', async () => {
      await using pair = await open();
      const client = meet(pair.near, pair.far, 'right');
      await once(client, 'ready');
      const [output, code] = await new Promise<[string, number]>((resolve, reject) => {
        client.exec('date', (error, stream) => {
          if (error !== undefined) return reject(error);
          let out = '';
          stream.on('data', (part: Buffer) => {
            out += String(part);
          });
          stream.on('close', (exit: number) => resolve([out, exit]));
        });
      });
      expect([output, code]).toEqual(['ran date', 3]);
      client.end();
      await once(client, 'close');
      await closed(pair.far);
    });

    it('refuses a wrong password', async () => {
      await using pair = await open();
      const client = meet(pair.near, pair.far, 'wrong');
      const [error] = await once(client, 'error');
      expect(error).toMatchObject({ level: 'client-authentication' });
      await closed(pair.near);
    });
  });
});

it('a program without listeners lives when its peer leaves a socket, and a byte stream', async () => {
  for (const { open } of socketPairs) {
    await using pair = await open();
    pair.far.resume();
    pair.near.destroy();
    await closed(pair.far);
  }
  expect(typeof createConnection).toBe('function');
});
