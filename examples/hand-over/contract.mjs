import { service, unary } from 'sidecall';

export const Greeter = service('Greeter', { greet: unary() });
