// SPDX-License-Identifier: MIT
// The server of `sidecall inspect --web`: on the loopback, for the bearer of its link alone.
import { Buffer } from 'node:buffer';
import { randomBytes, timingSafeEqual } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { errorText } from '../../base/error-text.ts';
import { SidecallError } from '../../base/errors.ts';
import { printableJson } from '../../base/printable.ts';
import type { WebSettings } from './operands.ts';
import { type Answer, PageData } from './page-data.ts';
import { UnprovenConnections } from './unproven-connections.ts';

/** The folder of the page, beside this module in `dist/`, and its files. */
const pages = new URL('page/', import.meta.url);
const files = new Map([
  ['', { name: 'index.html', type: 'text/html; charset=utf-8' }],
  ['page.js', { name: 'page.js', type: 'text/javascript; charset=utf-8' }],
  ['page.css', { name: 'page.css', type: 'text/css; charset=utf-8' }],
]);

const loopback = '127.0.0.1';
const tokenBytes = 18;

/** The page loads nothing from elsewhere; no other page can show it or learn its address. */
const headers = {
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
  'Cache-Control': 'no-store',
};

/** Pages for a browser of this machine. */
export class WebServer implements AsyncDisposable {
  /** The link to the page, with the token. */
  readonly url: string;
  readonly #server: Server;
  readonly #unproven: UnprovenConnections;
  readonly #data: PageData;
  readonly #token: string;
  /** The only names under which a browser may ask: another site may point its name here. */
  readonly #hosts: readonly string[];

  private constructor(server: Server, unproven: UnprovenConnections, data: PageData) {
    const { port } = server.address() as AddressInfo;
    this.#server = server;
    this.#unproven = unproven;
    this.#data = data;
    this.#token = randomBytes(tokenBytes).toString('base64url');
    this.#hosts = [`${loopback}:${port}`, `localhost:${port}`];
    this.url = `http://${loopback}:${port}/${this.#token}/`;
  }

  /**
   * Listens on a free port of the loopback.
   * @throws (as rejection) {SidecallError} `ERR_SIDECALL_SYSTEM` where it cannot.
   */
  static async open(settings: WebSettings): Promise<WebServer> {
    const server = createServer({
      requestTimeout: 10_000,
      keepAliveTimeout: 10_000,
      // Connections without a request go soon: every user of the machine can open them.
      headersTimeout: 2_000,
      connectionsCheckingInterval: 1_000,
    });
    const unproven = new UnprovenConnections(server);
    await new Promise<void>((resolve, reject) => {
      const onError = (cause: Error): void => {
        const text = `the page cannot be served on ${loopback}: ${errorText(cause)}`;
        reject(new SidecallError('ERR_SIDECALL_SYSTEM', text, { cause }));
      };
      server.once('error', onError);
      server.listen(0, loopback, () => {
        server.off('error', onError);
        resolve();
      });
    });
    const web = new WebServer(server, unproven, new PageData(settings));
    server.on('request', (request, response) => void web.#answer(request, response));
    return web;
  }

  /** Ends all connections, looks and recordings. */
  async close(): Promise<void> {
    const over = new Promise((resolve) => {
      this.#server.close(resolve);
    });
    this.#server.closeAllConnections();
    await Promise.all([over, this.#data.close()]);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Never rejects. */
  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.on('error', () => undefined); // the browser has gone
    try {
      send(request, response, await this.#answerTo(request));
    } catch (error) {
      send(request, response, problem(500, errorText(error)));
    }
  }

  #answerTo(request: IncomingMessage): Answer | Promise<Answer> {
    const { host = '', origin } = request.headers;
    if (!this.#hosts.includes(host)) {
      return problem(403, `This server answers to ${this.#hosts.join(' and ')}, not to '${host}'.`);
    }
    if (origin !== undefined && !this.#hosts.includes(origin.replace(/^http:\/\//, ''))) {
      return problem(403, 'Other sites may not ask this server.');
    }
    const { pathname, searchParams } = new URL(request.url ?? '/', `http://${loopback}`);
    const [, token = '', ...rest] = pathname.split('/');
    if (!isSame(token, this.#token)) return wrongToken;
    this.#unproven.onProven(request.socket);
    const path = rest.join('/');
    if (request.method === 'POST') return this.#data.change(path, searchParams);
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      return problem(405, `${request.method} is not understood: use GET.`);
    }
    const file = files.get(path);
    if (file === undefined) return this.#data.read(path, searchParams);
    const body = readFileSync(new URL(file.name, pages));
    return { status: 200, type: file.type, body };
  }
}

/** In constant time. */
function isSame(given: string, token: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(token)];
  return a.length === b.length && timingSafeEqual(a, b);
}

function send(request: IncomingMessage, response: ServerResponse, answer: Answer): void {
  const { status, type, body, file } = answer;
  const disposition =
    file === undefined ? {} : { 'Content-Disposition': `attachment; filename="${file}"` };
  response.writeHead(status, { ...headers, ...disposition, 'Content-Type': type });
  response.end(request.method === 'HEAD' ? undefined : body);
}

function problem(status: number, text: string): Answer {
  const body = printableJson(JSON.stringify({ problem: text }));
  return { status, type: 'application/json; charset=utf-8', body };
}

const wrongToken: Answer = {
  status: 403,
  type: 'text/html; charset=utf-8',
  body: `<!doctype html><html lang="en"><meta charset="utf-8"><title>sidecall: wrong link</title>
<h1>This link is not valid</h1>
<p>The address has no token, or not the one of this server. Each start of the command makes a new one.</p>
<p>Open the link that <code>npx sidecall inspect --web</code> has printed last.</p></html>`,
};
