// Tools of gRPC as separate programs, against our servers.
import { ServerCredentials } from '@grpc/grpc-js';
import protobufjs from 'protobufjs';
import { describe, expect, it } from 'vitest';
import { grpcTarget, listenGrpc } from '../../src/adapters/grpc/main.ts';
import { protobufService } from '../../src/adapters/protobuf.ts';
import { RpcError } from '../../src/base/errors.ts';
import type { SidecallEvent } from '../../src/base/events.ts';
import { server } from '../../src/open/server.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';
import { implement } from '../../src/rpc/serving/implementation.ts';
import { until } from '../support/contract.ts';
import { goProgram, run } from '../support/go.ts';
import { handlers, Indexer } from '../support/grpc.ts';
import { testService } from '../support/grpc-interop.ts';
import { scratchDirectory, startProgram } from '../support/programs.ts';

const cases = [
  'empty_unary',
  'large_unary',
  'client_streaming',
  'server_streaming',
  'ping_pong',
  'empty_stream',
  'timeout_on_sleeping_server',
  'cancel_after_begin',
  'cancel_after_first_response',
  'status_code_and_message',
  'special_status_message',
  'custom_metadata',
  'unimplemented_method',
  'unimplemented_service',
];

describe('the interop client of grpc-go', () => {
  it.each(cases)('%s, at a path and over TCP', async (name) => {
    const services = [testService];
    await using atPath = await listenGrpc({ services });
    await using atPort = await listenGrpc({
      services,
      address: '127.0.0.1:0',
      credentials: ServerCredentials.createInsecure(),
      authenticate: () => ({ origin: 'secret' }),
    });
    const client = goProgram('client');
    const local = [`--server_host=unix:${atPath.path}`, '--server_port=0'];
    for (const where of [local, ['--server_host=127.0.0.1', `--server_port=${atPort.port}`]]) {
      const { status, stderr } = await run(client, [...where, `--test_case=${name}`]);
      expect({ status, stderr: status === 0 ? '' : stderr }).toEqual({ status: 0, stderr: '' });
    }
  });
});

interface Pair {
  readonly a: number;
  readonly b: number;
}
const Desk = service('Desk', { add: unary<Pair, { sum: number; by: string }>() });
const isPair = (value: unknown): boolean => typeof (value as Partial<Pair>).a === 'number';

describe('JSON contracts and grpc-go', () => {
  it('its client calls by the content subtype json', async () => {
    const add = (pair: Pair): { sum: number; by: string } => {
      if (!isPair(pair)) throw new RpcError('invalid_argument', 'a pair is needed');
      return { sum: pair.a + pair.b, by: 'node' };
    };
    await using listener = await listenGrpc({ services: [implement(Desk, { add })] });
    const called = await run(goProgram('grpcjson'), ['call', `unix:${listener.path}`]);
    expect(called.stdout.trim().split('\n')).toEqual([
      '7 node',
      'rpc error: code = InvalidArgument desc = a pair is needed',
    ]);
  });

  it('a client whose authority is the path of the socket is refused, and an event says why', async () => {
    const events: SidecallEvent[] = [];
    const services = [implement(Desk, { add: () => ({ sum: 7, by: 'node' }) })];
    await using listener = await listenGrpc({ services, onEvent: (event) => events.push(event) });
    const { path } = listener;
    const refused = await run(goProgram('grpcjson'), ['call', `unix:${path}`, String(path)]);
    expect(refused.stderr).toContain('PROTOCOL_ERROR');
    await until(() => events.length > 0);
    expect(events).toHaveLength(1);
    expect(events[0]?.error?.message).toContain('authority to localhost');
  });

  it('its server, whose codec is JSON, answers ours', async () => {
    using scratch = scratchDirectory();
    const path = scratch.file('go');
    await using go = startProgram('grpcjson', ['serve', path], { command: goProgram('grpcjson') });
    await go.next();
    await using target = grpcTarget(`unix:${path}`);
    const desk = target.client(Desk);
    expect(await desk.add({ a: 3, b: 4 })).toEqual({ sum: 7, by: 'go' });
    await expect(desk.add('no pair' as never)).rejects.toMatchObject({ status: 'internal' });
  });
});

const Notes = service('Notes', { add: unary<{ text: string }, { count: number }>() });
const notes = implement(Notes, { add: ({ text }) => ({ count: text.length }) });

describe('grpcurl', () => {
  const grpcurl = (...args: string[]) => run(goProgram('grpcurl'), ['-plaintext', ...args]);

  it('lists, describes and calls, at a path, by both versions of reflection', async () => {
    await using listener = await listenGrpc({ services: [testService, notes] });
    const target = `unix:${listener.path}`;
    const listed = await grpcurl(target, 'list');
    expect(listed.stdout.trim().split('\n')).toEqual([
      'Notes',
      'grpc.health.v1.Health',
      'grpc.reflection.v1.ServerReflection',
      'grpc.reflection.v1alpha.ServerReflection',
      'grpc.testing.TestService',
    ]);
    const described = await grpcurl(target, 'describe', 'grpc.testing.SimpleRequest');
    expect(described.stdout).toContain('.grpc.testing.EchoStatus response_status = 7;');
    const called = await grpcurl(
      '-d',
      '{"responseSize": 3}',
      target,
      'grpc.testing.TestService/UnaryCall',
    );
    expect(JSON.parse(called.stdout)).toEqual({ payload: { body: 'AAAA' } });
    const checked = await grpcurl(target, 'grpc.health.v1.Health/List');
    expect(JSON.parse(checked.stdout)).toEqual({ statuses: { '': { status: 'SERVING' } } });
    const unknown = await grpcurl(target, 'describe', 'Notes');
    expect(unknown.status).not.toBe(0);
    expect(unknown.stderr).toContain('Symbol not found: Notes');
  });

  it('describes maps, optional fields, nested types and those of other packages', async () => {
    const { root } = protobufjs.parse(`syntax = "proto3"; package a.b;
      enum Kind { NONE = 0; SOME = 1; }
      message Outer {
        message Inner { Kind kind = 1; }
        map<string, Inner> by_name = 1;
        optional int64 count = 2;
        oneof choice { Inner inner = 3; string text = 4; }
        c.Other other = 5;
      }
      service Shapes { rpc Get(Outer) returns (Outer); }`);
    protobufjs.parse('syntax = "proto3"; package c; message Other { int32 n = 1; }', root);
    const Shapes = protobufService(root.lookupService('a.b.Shapes'));
    const get = (value: unknown): unknown => value;
    await using listener = await listenGrpc({ services: [implement(Shapes, { get } as never)] });
    const target = `unix:${listener.path}`;
    const { stdout } = await grpcurl(target, 'describe', 'a.b.Outer');
    for (const line of [
      'map<string, .a.b.Outer.Inner> by_name = 1;',
      'optional int64 count = 2;',
      '.c.Other other = 5;',
      'oneof choice {',
      '.a.b.Kind kind = 1;',
    ]) {
      expect(stdout).toContain(line);
    }
    const value = { by_name: { x: { kind: 'SOME' } }, count: '9', other: { n: 3 } };
    const sent = await grpcurl('-d', JSON.stringify(value), target, 'a.b.Shapes/Get');
    expect(JSON.parse(sent.stdout)).toEqual({
      byName: { x: { kind: 'SOME' } },
      count: '9',
      other: { n: 3 },
    });
  });

  it('over TCP it learns nothing unless reflection is opened', async () => {
    const common = {
      services: [testService],
      address: '127.0.0.1:0',
      credentials: ServerCredentials.createInsecure(),
      authenticate: () => ({ origin: 'secret' }) as const,
    };
    await using closed = await listenGrpc(common);
    const refused = await grpcurl(`127.0.0.1:${closed.port}`, 'list');
    expect(refused.status).not.toBe(0);
    expect(refused.stderr).toContain('does not support the reflection API');
    await using opened = await listenGrpc({ ...common, introspection: true });
    const listed = await grpcurl(`127.0.0.1:${opened.port}`, 'list');
    expect(listed.stdout).toContain('grpc.testing.TestService');
  });

  it('calls a service of a static module by a .proto file', async () => {
    await using listener = await listenGrpc({ services: [implement(Indexer, handlers)] });
    const proto = ['-import-path', 'test/support/proto', '-proto', 'demo.proto'];
    const args = [...proto, '-d', '{"number": 41}', `unix:${listener.path}`];
    const { stdout } = await grpcurl(...args, 'demo.Indexer/AddOne');
    expect(JSON.parse(stdout)).toMatchObject({ number: 42 });
  });
});

describe('grpc-health-probe', () => {
  const probe = (address: string, ...args: string[]) =>
    run(goProgram('grpc-health-probe'), [`-addr=${address}`, ...args]);

  it('gets the status, of the program and of a service, at a path and over TCP', async () => {
    const app = server({ services: [notes] });
    const { path } = await listenGrpc({ services: app });
    const { port } = await listenGrpc({
      services: app,
      address: '127.0.0.1:0',
      credentials: ServerCredentials.createInsecure(),
      authenticate: () => undefined,
      health: 'anonymous',
    });
    for (const address of [`unix:${path}`, `127.0.0.1:${port}`]) {
      app.health.resume();
      expect(await probe(address)).toMatchObject({ status: 0 });
      const unknown = await probe(address, '-service=Other');
      expect(unknown.status).toBe(3); // the call failed
      expect(unknown.stderr).toContain("no service 'Other'");
      app.health.set('Notes', 'not_serving');
      expect((await probe(address, '-service=Notes')).stderr).toContain('NOT_SERVING');
      app.health.shutdown();
      expect((await probe(address)).status).toBe(4);
    }
    await app.close();
  });

  it('is refused where health asks for a caller that is known', async () => {
    await using listener = await listenGrpc({
      services: [notes],
      address: '127.0.0.1:0',
      credentials: ServerCredentials.createInsecure(),
      authenticate: () => undefined,
    });
    const { status, stderr } = await probe(`127.0.0.1:${listener.port}`);
    expect(status).not.toBe(0);
    expect(stderr).toContain('Unauthenticated');
  });
});
