// @connectrpc/connect-node: gRPC over HTTP/2 over a Unix socket, one session that is kept,
// protobuf's BytesValue.
import http2 from 'node:http2';
import { createConnection } from 'node:net';
import { create, createFileRegistry } from '@bufbuild/protobuf';
import {
  BytesValueSchema,
  FileDescriptorProtoSchema,
  FileDescriptorSetSchema,
  file_google_protobuf_wrappers as wrappers,
} from '@bufbuild/protobuf/wkt';
import { createClient } from '@connectrpc/connect';
import {
  connectNodeAdapter,
  createGrpcTransport,
  Http2SessionManager,
} from '@connectrpc/connect-node';
import { servedPath, startServer } from './server.mjs';

const bytes = '.google.protobuf.BytesValue';
const file = create(FileDescriptorProtoSchema, {
  name: 'bench.proto',
  package: 'bench',
  syntax: 'proto3',
  dependency: [wrappers.proto.name],
  service: [{ name: 'Echo', method: [{ name: 'Echo', inputType: bytes, outputType: bytes }] }],
});
const set = create(FileDescriptorSetSchema, { file: [wrappers.proto, file] });
const Echo = createFileRegistry(set).getService('bench.Echo');
const messageMaxBytes = 0xffff_ffff;

export async function open() {
  const { path, pid, stop } = await startServer(import.meta.url);
  const baseUrl = 'http://localhost';
  const sessionManager = new Http2SessionManager(baseUrl, undefined, {
    createConnection: () => createConnection(path),
  });
  const transport = createGrpcTransport({
    baseUrl,
    sessionManager,
    readMaxBytes: messageMaxBytes,
    writeMaxBytes: messageMaxBytes,
  });
  const client = createClient(Echo, transport);
  return {
    serverPid: pid,
    echo: async (payload) => {
      const { value } = await client.echo(create(BytesValueSchema, { value: payload }));
      return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
    },
    close: async () => {
      sessionManager.abort();
      await stop();
    },
  };
}

const path = servedPath();
if (path !== undefined) {
  const routes = (router) => router.service(Echo, { echo: (request) => request });
  const limits = { readMaxBytes: messageMaxBytes, writeMaxBytes: messageMaxBytes };
  http2
    .createServer(connectNodeAdapter({ routes, ...limits }))
    .listen(path, () => process.send('ready'));
}
