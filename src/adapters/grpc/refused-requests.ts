// SPDX-License-Identifier: MIT
// Requests that HTTP/2 refuses while it reads their headers, before anything of grpc-js sees them.
import type { Http2Server, ServerHttp2Session } from 'node:http2';
import type { Server } from '@grpc/grpc-js';
import { systemClock, type Timer } from '../../base/clock.ts';
import { SidecallError } from '../../base/errors.ts';
import { emitEvent, type OnEvent } from '../../base/events.ts';
import type { PlainConnection } from '../../rendezvous/plain-listener.ts';

/** Time for the rest of headers that came in parts. */
const lookMs = 1_000;

/**
 * Makes the injector of a server; the function that it gives injects a connection, and reports the
 * first request of it that HTTP/2 refused: 1 to 2 seconds later, or when the peer says goaway or
 * ends its half. Node has no event for such a request (ADR 0050), but the session numbers its
 * stream.
 */
export function reportingInjector<
  I extends { injectConnection(connection: PlainConnection): void },
>(
  server: Server,
  onEvent: OnEvent | undefined,
  make: () => I,
): { readonly injector: I; inject(connection: PlainConnection): void } {
  const before = new Set(http2Servers(server));
  const injector = make();
  const made = http2Servers(server).find((http2) => !before.has(http2));
  let latest: ServerHttp2Session | undefined;
  made?.on('session', (session) => {
    latest = session;
  });
  return {
    injector,
    inject(connection) {
      injector.injectConnection(connection);
      if (latest !== undefined) watch(latest, connection, onEvent);
      latest = undefined;
    },
  };
}

/** The servers of HTTP/2 that grpc-js keeps privately; none where a version of it has others. */
function http2Servers(server: Server): Http2Server[] {
  const { http2Servers } = server as unknown as { http2Servers?: Map<Http2Server, unknown> };
  return http2Servers instanceof Map ? [...http2Servers.keys()] : [];
}

function watch(
  session: ServerHttp2Session,
  connection: PlainConnection,
  onEvent: OnEvent | undefined,
): void {
  let called = 0; // the number of the last stream that became a call
  let suspect = 0;
  let timer: Timer;
  session.on('stream', ({ id = 0 }) => {
    called = id;
  });
  const look = (isEnd: boolean): void => {
    const begun = session.destroyed ? 0 : (session.state.lastProcStreamID ?? 0);
    if (begun <= called) return;
    if (isEnd || begun === suspect) return report();
    suspect = begun;
    lookLater();
  };
  const lookLater = (): void => {
    timer = systemClock.setTimeout(look, lookMs, false);
    timer.unref();
  };
  const atEnd = (): void => look(true);
  const report = (): void => {
    session.off('goaway', atEnd);
    connection.off('end', atEnd);
    const error = new SidecallError('ERR_SIDECALL_PROTOCOL', text);
    emitEvent(onEvent, { type: 'adapter-failed', error, peer: connection.peer });
  };
  lookLater();
  session.once('goaway', atEnd); // behind it the session is destroyed before the connection ends
  connection.once('end', atEnd);
  connection.once('close', () => systemClock.clearTimeout(timer));
}

const text =
  'HTTP/2 refused a request for its headers (PROTOCOL_ERROR) before it was a call: the usual reason is an empty :authority, none, or the path of the socket; let the client set its authority to localhost (grpc-java: overrideAuthority("localhost"))';
