import { service, unary } from 'sidecall';

export const Hasher = service('Hasher', {
  /** The SHA-256 of the file at `path`, in hexadecimal. */
  hash: unary({ idempotent: true }),
});
