// The step that `npm ci` runs in a checkout: the TypeScript, then the addon. A machine without a
// compiler gets a checkout in which all that needs no addon works, and is told what to install.
import { join } from 'node:path';
import { root, run } from './lib.mjs';

run(process.execPath, [join(root, 'scripts', 'build-ts.mjs')]);
run(process.execPath, [join(root, 'scripts', 'build-native.mjs'), '--where-possible']);
