// The contract between the two processes of the demo.
import { bytes, service, unary } from '../dist/index.js';

/** Served by the helper. A file travels as bytes; its path goes along as metadata. */
export const Indexer = service('Indexer', {
  add: unary({ request: bytes }),
  lookUp: unary(),
  summary: unary(),
  rest: unary(),
});

/** Served by the main process: the helper calls back. */
export const Settings = service('Settings', { get: unary() });
