// A program that Connect's conformance tests: a server by listenGrpc(), or callers by grpcTarget().
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { credentials, ServerCredentials } from '@grpc/grpc-js';
import protobufjs from 'protobufjs';
import { grpcTarget, listenGrpc } from '../../../dist/adapters/grpc/main.js';
import { protobufService } from '../../../dist/adapters/protobuf.js';
import { implement, RpcError } from '../../../dist/index.js';

const [mode, protos] = process.argv.slice(2);
const space = 'connectrpc.conformance.v1';
const root = new protobufjs.Root();
const { resolvePath } = root;
root.resolvePath = (origin, target) =>
  target.startsWith('connectrpc/') ? `${protos}/${target}` : resolvePath(origin, target);
root.loadSync(
  ['service', 'client_compat', 'server_compat'].map(
    (name) => `connectrpc/conformance/v1/${name}.proto`,
  ),
);
const typeOf = (name) => root.lookupType(`${space}.${name}`);
const Conformance = protobufService(root.lookupService(`${space}.ConformanceService`));
const codes = root.lookupEnum(`${space}.Code`);
/** `CODE_NOT_FOUND` is `not_found`; Connect writes CANCELED, gRPC and this package CANCELLED. */
const statusOf = (code) =>
  codes.valuesById[code].replace('CODE_', '').replace('CANCELED', 'CANCELLED').toLowerCase();
const codeOf = (status) =>
  codes.values[`CODE_${status.toUpperCase().replace('CANCELLED', 'CANCELED')}`];

/** Messages of standard input: a length of four bytes before each. */
async function* inputs(type) {
  let bytes = Buffer.alloc(0);
  for await (const chunk of process.stdin) {
    bytes = Buffer.concat([bytes, chunk]);
    while (bytes.length >= 4 && bytes.length >= 4 + bytes.readUInt32BE()) {
      const end = 4 + bytes.readUInt32BE();
      yield type.decode(bytes.subarray(4, end));
      bytes = bytes.subarray(end);
    }
  }
}

function output(type, message) {
  const bytes = type.encode(type.fromObject(message)).finish();
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  process.stdout.write(Buffer.concat([length, bytes]));
}

const anyOf = (name, message) => ({
  type_url: `type.googleapis.com/${space}.${name}`,
  value: typeOf(name).encode(typeOf(name).fromObject(message)).finish(),
});
const messageOf = ({ type_url: url, value }) =>
  root.lookupType(url.slice(url.lastIndexOf('/') + 1)).decode(value);

function metadataOf(headers = []) {
  const entries = headers.map(({ name, value }) => [
    name.toLowerCase(),
    name.toLowerCase().endsWith('-bin')
      ? value.map((text) => Buffer.from(text, 'base64'))
      : value.join(', '),
  ]);
  return Object.fromEntries(entries);
}

function headersOf(metadata) {
  return Object.entries(metadata ?? {}).map(([name, value]) => ({
    name,
    value: [value]
      .flat()
      .map((each) =>
        typeof each === 'string' ? each : Buffer.from(each).toString('base64').replace(/=+$/, ''),
      ),
  }));
}

function infoOf(ctx, requests) {
  const timeoutMs =
    ctx.deadline === undefined
      ? undefined
      : Math.max(0, Math.round(ctx.deadline - performance.now()));
  return { requestHeaders: headersOf(ctx.metadata), requests, timeoutMs };
}

function failureOf(error, details = []) {
  const given = [...(error.details ?? []), ...details];
  return new RpcError(statusOf(error.code), error.message ?? '', {
    details:
      given.length === 0
        ? undefined
        : given.map(({ type_url: typeUrl, value }) => ({ typeUrl, value })),
  });
}

async function answerOf(definition, ctx, requests) {
  const info = infoOf(ctx, requests);
  if (definition) {
    ctx.sendHeaders(metadataOf(definition.responseHeaders));
    ctx.trailers = metadataOf(definition.responseTrailers);
    await sleep(definition.responseDelayMs);
    if (definition.error) {
      throw failureOf(definition.error, [anyOf('ConformancePayload.RequestInfo', info)]);
    }
  }
  return { payload: { data: definition?.responseData, requestInfo: info } };
}

/** The answers of a stream that were not sent yet, and its error. */
async function* answersOf(definition, ctx, requests, sent = 0) {
  let count = sent;
  for (const data of definition?.responseData.slice(sent) ?? []) {
    await sleep(definition.responseDelayMs);
    const requestInfo = count === 0 ? infoOf(ctx, requests) : undefined;
    yield { payload: { data, requestInfo } };
    count += 1;
  }
  if (!definition?.error) return;
  const info = anyOf('ConformancePayload.RequestInfo', infoOf(ctx, requests));
  throw failureOf(definition.error, count === 0 ? [info] : []);
}

const handlers = {
  unary: (request, ctx) =>
    answerOf(request.responseDefinition, ctx, [anyOf('UnaryRequest', request)]),
  idempotentUnary: (request, ctx) =>
    answerOf(request.responseDefinition, ctx, [anyOf('IdempotentUnaryRequest', request)]),
  unimplemented: () => {
    throw new RpcError('unimplemented', 'not implemented');
  },
  clientStream: async (requests, ctx) => {
    const got = [];
    for await (const request of requests) got.push(request);
    const anys = got.map((request) => anyOf('ClientStreamRequest', request));
    return answerOf(got[0]?.responseDefinition, ctx, anys);
  },
  async *serverStream(request, ctx) {
    const { responseDefinition: definition } = request;
    if (definition) {
      ctx.sendHeaders(metadataOf(definition.responseHeaders));
      ctx.trailers = metadataOf(definition.responseTrailers);
    }
    yield* answersOf(definition, ctx, [anyOf('ServerStreamRequest', request)]);
  },
  async *bidiStream(requests, ctx) {
    let first;
    let sent = 0;
    let got = [];
    for await (const request of requests) {
      if (first === undefined) {
        first = request;
        if (first.responseDefinition) {
          ctx.sendHeaders(metadataOf(first.responseDefinition.responseHeaders));
          ctx.trailers = metadataOf(first.responseDefinition.responseTrailers);
        }
      }
      got.push(anyOf('BidiStreamRequest', request));
      if (!first.fullDuplex) continue;
      const data = first.responseDefinition?.responseData[sent];
      if (data === undefined) break;
      await sleep(first.responseDefinition.responseDelayMs);
      yield { payload: { data, requestInfo: sent === 0 ? infoOf(ctx, got) : { requests: got } } };
      sent += 1;
      got = [];
    }
    yield* answersOf(first?.responseDefinition, ctx, got, sent);
  },
};

async function serve() {
  for await (const { messageReceiveLimit } of inputs(typeOf('ServerCompatRequest'))) {
    const listener = await listenGrpc({
      services: [implement(Conformance, handlers)],
      address: '127.0.0.1:0',
      credentials: ServerCredentials.createInsecure(),
      authenticate: () => ({ origin: 'secret' }),
      ...(messageReceiveLimit > 0 && { receiveMaxBytes: messageReceiveLimit }),
      onEvent: () => undefined,
    });
    output(typeOf('ServerCompatResponse'), { host: '127.0.0.1', port: listener.port });
    break;
  }
  await once(process.stdin, 'end');
}

/** Eight calls at a time: what is not read yet has time. */
async function callAll() {
  const calls = new Set();
  for await (const request of inputs(typeOf('ClientCompatRequest'))) {
    const called = callAndTell(request).then(() => calls.delete(called));
    calls.add(called);
    if (calls.size === 8) await Promise.race(calls);
  }
}

async function callAndTell(request) {
  const told = await call(request).then(
    (response) => ({ response }),
    (error) => ({ error: { message: error.stack } }),
  );
  output(typeOf('ClientCompatResponse'), { testName: request.testName, ...told });
}

async function call(request) {
  const { host, port, messageReceiveLimit, method, cancel = {}, requestMessages } = request;
  const options = {
    credentials: credentials.createInsecure(),
    channelOptions: { 'grpc.default_compression_algorithm': request.compression === 2 ? 2 : 0 },
    ...(messageReceiveLimit > 0 && { receiveMaxBytes: Math.max(1_024, messageReceiveLimit) }),
  };
  const target = grpcTarget(`${host}:${port}`, options);
  const giveUp = new AbortController();
  const response = { payloads: [] };
  async function* requests() {
    for (const any of requestMessages) {
      await sleep(request.requestDelayMs);
      yield messageOf(any);
      await answered();
    }
    if (cancel?.beforeCloseSend) giveUp.abort();
    else closed();
  }
  const closed = () => {
    if (cancel?.cancelTiming === 'afterCloseSendMs') {
      setTimeout(() => giveUp.abort(), cancel.afterCloseSendMs);
    }
  };
  // A full-duplex caller sends the next message behind the answer to the one before.
  const isFullDuplex = request.streamType === 5;
  let next = defer();
  const answered = () => (isFullDuplex ? next.promise : undefined);
  const callOptions = {
    metadata: metadataOf(request.requestHeaders),
    signal: giveUp.signal,
    timeoutMs: Object.hasOwn(request, 'timeoutMs') ? request.timeoutMs : undefined,
    onHeaders: (metadata) => {
      response.responseHeaders = headersOf(metadata);
    },
    onTrailers: (metadata) => {
      response.responseTrailers = headersOf(metadata);
    },
  };
  const name = method.charAt(0).toLowerCase() + method.slice(1);
  const made = target.client(Conformance)[name];
  const isStreamed = ['clientStream', 'bidiStream'].includes(name);
  const given = isStreamed ? requests() : messageOf(requestMessages[0]);
  try {
    const answer = made(given, callOptions);
    if (!isStreamed) closed();
    const answers = ['serverStream', 'bidiStream'].includes(name) ? answer : [await answer];
    for await (const { payload } of answers) {
      response.payloads.push(payload ?? {});
      if (response.payloads.length === cancel?.afterNumResponses) giveUp.abort();
      next.resolve();
      next = defer();
    }
  } catch (error) {
    response.error = errorOf(error);
    if (error.metadata && Object.keys(error.metadata).length > 0) {
      response.responseTrailers ??= headersOf(error.metadata);
    }
  }
  next.resolve();
  void target.close({ deadlineMs: 0 });
  return response;
}

function defer() {
  let resolve;
  const promise = new Promise((done) => {
    resolve = done;
  });
  return { promise, resolve };
}

function errorOf(error) {
  const details = (Array.isArray(error.details) ? error.details : []).map(({ typeUrl, value }) => ({
    type_url: typeUrl,
    value,
  }));
  const status = error.name === 'AbortError' ? 'cancelled' : (error.status ?? 'unknown');
  return { code: codeOf(status), message: error.rawMessage ?? error.message, details };
}

await (mode === 'server' ? serve() : callAll());
