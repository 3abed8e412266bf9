// gRPC servers whose callers the kernel identifies, and sidecall contracts on the wire of gRPC.
import * as grpc from '@grpc/grpc-js';
import { describe, expect, it } from 'vitest';
import { GrpcGate } from '../../src/adapters/grpc/caller-gate.ts';
import { type ServeGrpcOptions, serveGrpc } from '../../src/adapters/grpc/main.ts';
import { RpcError } from '../../src/base/errors.ts';
import type { Peer } from '../../src/base/peer.ts';
import type { CallContext } from '../../src/rpc/contract/call-context.ts';
import { appCertificate, type Certificate, localhostCertificate } from '../support/certificates.ts';
import { until } from '../support/contract.ts';
import {
  addOne,
  handlers,
  Indexer,
  IndexerClient,
  overTcp,
  right,
  served,
} from '../support/grpc.ts';

describe('authenticate', () => {
  it.each([
    ['knows nobody', () => undefined, 'knows no such caller'],
    ['throws', () => Promise.reject(new Error('the directory is down')), 'directory is down'],
    [
      'claims a certificate that nobody showed',
      () => ({ origin: 'tls' as const }),
      'no certificate',
    ],
    ['claims the kernel', () => ({ origin: 'kernel' }) as never, "origin 'kernel'"],
    ['gives a strange name', () => ({ origin: 'secret', name: 7 }) as never, 'no string'],
  ])('that %s lets nobody in, and the caller learns nothing', async (_what, authenticate, why) => {
    let isReached = false;
    const addOneHandler = (): object => {
      isReached = true;
      return {};
    };
    await using server = await served({ addOne: addOneHandler }, { authenticate });
    const { status } = await addOne(server.client, {}, { metadata: right });
    expect(status).toMatchObject({ code: grpc.status.UNAUTHENTICATED, details: 'who are you?' });
    expect(isReached).toBe(false);
    expect(server.events).toMatchObject([
      { type: 'refused', error: { code: 'ERR_SIDECALL_PEER_DENIED' } },
    ]);
    expect(server.events[0]?.error.message).toContain(why);
  });

  it('that never answers holds no call that was given up', async () => {
    const signals: AbortSignal[] = [];
    await using server = await served(
      {},
      {
        authenticate: ({ signal }) => {
          signals.push(signal);
          return new Promise(() => undefined);
        },
      },
    );
    const onCall = (call: grpc.ClientUnaryCall): void =>
      void until(() => signals.length === 1).then(() => call.cancel());
    const { status } = await addOne(server.client, {}, { onCall });
    expect(status.code).toBe(grpc.status.CANCELLED);
    await until(() => signals[0]?.aborted === true);
  });

  it('may say what the caller hears', async () => {
    const authenticate = (): never => {
      throw new RpcError('permission_denied', 'the trial is over');
    };
    await using server = await served({}, { authenticate });
    const { status } = await addOne(server.client, {});
    expect(status).toMatchObject({
      code: grpc.status.PERMISSION_DENIED,
      details: 'the trial is over',
    });
  });

  it('is told of encryption where the application vouches for it', async () => {
    const told: boolean[] = [];
    for (const isEncrypted of [undefined, true]) {
      const authenticate: ServeGrpcOptions['authenticate'] = (caller) => {
        told.push(caller.isEncrypted);
        return { origin: 'secret' };
      };
      await using server = await served({}, { authenticate, isEncrypted });
      await addOne(server.client, {});
    }
    expect(told).toEqual([false, true]);
  });

  it('a secret counts where others cannot have read it', async () => {
    const gate = new GrpcGate(() => ({ origin: 'secret' }), undefined);
    const caller = { method: '/x', metadata: {}, certificate: undefined };
    const admit = (address: string, isEncrypted: boolean): Promise<Peer> =>
      gate.admit({ ...caller, address, isEncrypted }, new AbortController().signal);
    for (const address of ['127.0.0.1:5000', '127.9.9.9:1', '::1:5000', '::ffff:127.0.0.1:80']) {
      expect((await admit(address, false)).origin).toBe('secret');
    }
    expect((await admit('192.168.1.5:4000', true)).origin).toBe('secret');
    for (const address of [
      '192.168.1.5:4000',
      '10.127.0.1:80',
      '::1f:80',
      'unknown',
      '127.0.0.1',
    ]) {
      await expect(admit(address, false)).rejects.toMatchObject({ status: 'unauthenticated' });
    }
  });

  it('sees a certificate that TLS has verified', async () => {
    const authority = Buffer.from(localhostCertificate.cert);
    const pair = ({ key, cert }: Certificate) => ({
      private_key: Buffer.from(key),
      cert_chain: Buffer.from(cert),
    });
    const server = new grpc.Server();
    const peers: Peer[] = [];
    const note = (_: unknown, { peer }: CallContext): object => {
      peers.push(peer);
      return {};
    };
    serveGrpc(
      server,
      Indexer,
      { ...handlers, addOne: note },
      {
        authenticate: ({ certificate, isEncrypted }) => {
          expect(isEncrypted).toBe(true);
          return { origin: 'tls', name: String(certificate?.subject.CN) };
        },
      },
    );
    const credentials = grpc.ServerCredentials.createSsl(
      authority,
      [pair(localhostCertificate)],
      true,
    );
    const address = await overTcp(server, credentials);
    const override = { 'grpc.ssl_target_name_override': 'localhost' };
    const key = pair(appCertificate);
    const known = grpc.credentials.createSsl(authority, key.private_key, key.cert_chain);
    const client = new IndexerClient(address, known, override);
    expect((await addOne(client, {})).status.code).toBe(grpc.status.OK);
    expect(peers).toMatchObject([{ origin: 'tls', name: 'app', uid: undefined }]);
    client.close();
    server.forceShutdown();
  });
});
