// The adapters with the oldest versions of their packages that are supported.
import assert from 'node:assert/strict';
import grpc from '@grpc/grpc-js';
import protobufjs from 'protobufjs';
import { listen, socketPath } from 'sidecall';
import { attachListener, peerOf } from 'sidecall/grpc';
import { jsonrpcTransport } from 'sidecall/jsonrpc';
import { protobufService } from 'sidecall/protobuf';
import { createSessionPair } from 'sidecall/testing';
import jsonrpc from 'vscode-jsonrpc';

const pair = createSessionPair();

const { root } = protobufjs.parse(`
  syntax = "proto3";
  package demo;
  message Number { int32 value = 1; bytes data = 2; }
  service Sums { rpc AddOne(Number) returns (Number); rpc Keep(Number) returns (Number); }`);
const Sums = protobufService(root.lookupService('demo.Sums'));
const kept = [];
pair.far.serve(Sums, {
  addOne: ({ value }) => ({ value: value + 1 }),
  keep: ({ value, data }) => {
    kept.push({ value, data });
    return {};
  },
});
const sums = pair.near.client(Sums);
assert.equal((await sums.addOne({ value: 41 })).value, 42);
// Fields of bytes are the handler's to keep: the memory of their messages is used again.
for (let value = 1; value < 60; value += 1) {
  await sums.keep({ value, data: Buffer.alloc(value * 400, value) });
}
for (const { value, data } of kept) assert.ok(Buffer.alloc(value * 400, value).equals(data));

const connections = [
  [pair.near, true],
  [pair.far, false],
].map(([session, opens]) => {
  const { reader, writer } = jsonrpcTransport(session, { opens });
  return jsonrpc.createMessageConnection(reader, writer);
});
connections[1].onRequest('sum', (a, b) => a + b);
for (const connection of connections) connection.listen();
assert.equal(await connections[0].sendRequest('sum', 1, 2), 3);
for (const connection of connections) connection.dispose();
await pair.close();

const path = socketPath(`old-${process.pid}`);
const listener = await listen({ path, protocol: 'plain' });
const server = new grpc.Server();
const same = {
  path: '/demo.Desk/Same',
  requestStream: false,
  responseStream: false,
  requestSerialize: (value) => Buffer.from(value),
  requestDeserialize: String,
  responseSerialize: (value) => Buffer.from(value),
  responseDeserialize: String,
};
server.addService({ same }, { same: (call, done) => done(null, `${peerOf(call).pid}`) });
const attached = attachListener(server, listener);
const Desk = grpc.makeGenericClientConstructor({ same }, 'Desk');
const client = new Desk(`unix:${path}`, grpc.credentials.createInsecure());
const said = await new Promise((resolve, reject) => {
  client.same('x', (error, answer) => (error ? reject(error) : resolve(answer)));
});
assert.equal(said, String(process.pid));
client.close();
await listener.close();
await attached;
console.log('the adapters work with old versions');
