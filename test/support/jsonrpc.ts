import { createMessageConnection, type MessageConnection, RequestType } from 'vscode-jsonrpc/node';
import type { JsonRpcTransport } from '../../src/adapters/jsonrpc.ts';

export function withResolvers<T>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => undefined;
  const promise = new Promise<T>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}

export function connectionOver({ reader, writer }: JsonRpcTransport): MessageConnection {
  return createMessageConnection(reader, writer);
}

export const add = new RequestType<{ a: number; b: number }, number, { why: string }>('add');
