import { json, service, unary } from 'sidecall';

interface Pair {
  readonly a: number;
  readonly b: number;
}

export const Sums = service('Sums', {
  add: unary({ request: json<Pair>(), response: json<number>() }),
});
