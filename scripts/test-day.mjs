// A tab of `sidecall inspect --web` that stays open for a day: 86,400 looks, in five minutes.
import { join } from 'node:path';
import { root, run } from './lib.mjs';

process.env.SIDECALL_LOOKS = '86400';
const vitest = join(root, 'node_modules', 'vitest', 'vitest.mjs');
run(process.execPath, [
  vitest,
  'run',
  'test/e2e/web-page.test.ts',
  '-t',
  'memory',
  '--testTimeout=1800000',
]);
