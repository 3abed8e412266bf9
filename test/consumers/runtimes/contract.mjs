import { service, unary } from 'sidecall';

export const Runtime = service('Runtime', { name: unary() });
