import { json, serverStream, service, unary } from 'sidecall';

export const Words = service('Words', {
  count: unary({ request: json(), response: json() }),
  split: serverStream({ request: json(), response: json() }),
});
