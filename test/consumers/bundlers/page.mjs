// Bundled for a browser: contracts and the page's end, and no Node.
import { service, unary } from 'sidecall';
import { connectMain } from 'sidecall/electron/renderer';

export const Sum = service('Sum', { add: unary() });
export const add = async () => (await connectMain()).client(Sum).add({ a: 1, b: 1 });
