// The methods of the helper.
import { leased, notification, serverStream, service, unary } from 'sidecall';

export const Index = service('Index', {
  count: unary(),
  find: unary(),
  pages: serverStream(),
  log: notification(),
  rebuild: unary(),
  thumbnail: unary({ response: leased }),
});
