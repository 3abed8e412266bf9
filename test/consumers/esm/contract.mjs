import { serverStream, service, unary } from 'sidecall';

export const Sum = service('Sum', { add: unary(), to: serverStream() });
