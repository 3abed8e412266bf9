// A helper that is killed 1,000 times at random instants, and its flight recorder: four minutes.
import { join } from 'node:path';
import { root, run } from './lib.mjs';

process.env.SIDECALL_KILLS = '1000';
const vitest = join(root, 'node_modules', 'vitest', 'vitest.mjs');
run(process.execPath, [vitest, 'run', 'test/helper/recorder-memory-kills.test.ts']);
