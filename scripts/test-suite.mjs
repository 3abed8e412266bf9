// npm run test:users, test:page, …: the tests of one suite, which `npm test` leaves out because
// they need tools or rights of their own. Further suites may follow, then arguments for vitest.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { root, run } from './lib.mjs';
import { requireTools, suites } from './suites.mjs';

const args = process.argv.slice(2);
const isSuite = (name) => suites[name]?.files !== undefined;
const names = args.splice(0, args.findIndex((name) => !isSuite(name)) >>> 0);
for (const name of names) requireTools(name);
const script = (file) => join(root, 'scripts', file);
if (!existsSync(join(root, 'dist', 'index.js'))) run(process.execPath, [script('build-ts.mjs')]);
run(process.execPath, [script('test-native.mjs'), '--programs']);
process.env.SIDECALL_SUITE = names.join();
run(process.execPath, [join(root, 'node_modules', 'vitest', 'vitest.mjs'), 'run', ...args]);
