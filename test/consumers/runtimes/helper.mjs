// A helper: answers, then waits for its parent.
import { parent } from 'sidecall';
import { Runtime } from './contract.mjs';

const { bun, deno, node } = process.versions;
const session = await parent();
session.serve(Runtime, {
  name: () => (bun ? `Bun ${bun}` : deno ? `Deno ${deno}` : `Node ${node}`),
});
