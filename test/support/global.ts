// Runs once: the programs under test/e2e use the built package, so it must be there.
import { existsSync } from 'node:fs';

export default function setup(): void {
  const built = new URL('../../dist/index.js', import.meta.url);
  if (!existsSync(built)) throw new Error('dist/ is missing: run "npm run build:ts" first');
  const peer = new URL('../../build/core-tests/native/peer', import.meta.url);
  if (!existsSync(peer)) throw new Error('build/ has no peer: run "npm run test:native" first');
}
