// A listener without a path: its argument is the identity that its peers have.
import { listen } from '../../../dist/index.js';

const listener = await listen({ identity: process.argv[2] ?? 'kernel' });
console.log(JSON.stringify({ path: listener.path }));
