// Conversations in third-party protocols, run identically over sockets and over byte streams of a
// session.
import { once } from 'node:events';
import type { Duplex } from 'node:stream';
import { localhostCertificate, makeHostKey } from './certificates.ts';

// biome-ignore lint/suspicious/noExplicitAny: each protocol has a type of its own for a socket
export const any = (stream: Duplex): any => stream;

export const { key, cert } = localhostCertificate;

export const hostKey = makeHostKey();

export const closed = async (stream: Duplex): Promise<void> => {
  if (!stream.closed) await once(stream, 'close');
};
