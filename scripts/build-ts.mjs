// Compiles src/ to an emptied dist/, so that no output of a renamed file remains.
import { copyFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { root, run } from './lib.mjs';

rmSync(join(root, 'dist'), { recursive: true, force: true });
run(process.execPath, [
  join(root, 'node_modules', 'typescript', 'bin', 'tsc'),
  '-p',
  'tsconfig.build.json',
]);
const preload = join('adapters', 'electron', 'preload.cjs');
copyFileSync(join(root, 'src', preload), join(root, 'dist', preload));
