// npm run test:users, test:page, …: the tests of one suite, which `npm test` leaves out because
// they need tools or rights of their own. Arguments after the name are for vitest.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { root, run } from './lib.mjs';
import { requireTools } from './suites.mjs';

const [name, ...args] = process.argv.slice(2);
requireTools(name);
const script = (file) => join(root, 'scripts', file);
if (!existsSync(join(root, 'dist', 'index.js'))) run(process.execPath, [script('build-ts.mjs')]);
run(process.execPath, [script('test-native.mjs'), '--programs']);
process.env.SIDECALL_SUITE = name;
run(process.execPath, [join(root, 'node_modules', 'vitest', 'vitest.mjs'), 'run', ...args]);
