// `electron .` under the stub: evaluates the `main` of the folder's package.json, then makes `app`
// ready. With --no-pages a window only says which file it opens, and closes.
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { app, stub } from './index.mjs';

stub.runsPages = !process.argv.includes('--no-pages');
const { main = 'index.js' } = JSON.parse(readFileSync('package.json', 'utf8'));
await import(pathToFileURL(resolve(main)).href);
app.becomeReady();
