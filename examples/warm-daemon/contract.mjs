import { service, unary } from 'sidecall';

export const Words = service('Words', {
  /** The words that begin with `text`, and how many there are. */
  complete: unary(),
});
