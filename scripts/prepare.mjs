// The step that `npm ci` runs in a checkout: the addon, then the TypeScript.
import { join } from 'node:path';
import { root, run } from './lib.mjs';

run(process.execPath, [join(root, 'scripts', 'build-native.mjs')]);
run(process.execPath, [join(root, 'scripts', 'build-ts.mjs')]);
