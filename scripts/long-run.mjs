// .ci/long: every suite at its full size. Writes after each one when it ran, on which commit, and
// how it ended, into docs/testing/long-run.md, so that no suite falls out unseen.
//
//   .ci/long                  all suites
//   .ci/long sim test:ring    these
//   node scripts/long-run.mjs --page    only writes the page
//   node scripts/long-run.mjs --print   only prints it
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fail, root } from './lib.mjs';
import { inputsOf, readResults, resultsFile, suites } from './suites.mjs';

const names = process.argv.slice(2).filter((argument) => !argument.startsWith('--p'));
const unknown = names.filter((name) => !(name in suites));
if (unknown.length > 0)
  fail(`.ci/long: there is no suite ${unknown}; there are ${Object.keys(suites).join(', ')}`);
const results = readResults();
if (process.argv.includes('--print')) {
  process.stdout.write(pageText());
  process.exit();
}
if (process.argv.includes('--page')) {
  writePage();
  process.exit();
}
if (git('status', '--porcelain') !== '') {
  fail('.ci/long: the checkout has changes, so its results would name a commit that it is not');
}
const commit = git('rev-parse', '--short=12', 'HEAD');
const failed = [];
for (const name of names.length > 0 ? names : Object.keys(suites)) {
  const { before, longArgs = [] } = suites[name];
  const script = ['npm', 'run', name, ...(longArgs.length > 0 ? ['--', ...longArgs] : [])].join(
    ' ',
  );
  console.log(`=== ${script}`);
  const begun = performance.now();
  const { status } = spawnSync(
    'bash',
    ['-c', before === undefined ? script : `${before} && ${script}`],
    {
      cwd: root,
      stdio: 'inherit',
      // Both are about `npm test` as others run it.
      env: { ...process.env, ...(/newcomer|load/.test(name) ? {} : { SIDECALL_LONG: '1' }) },
    },
  );
  const minutes = Math.ceil((performance.now() - begun) / 60_000);
  const isPassed = status === 0;
  if (!isPassed) failed.push(name);
  const date = new Date().toISOString().slice(0, 10);
  results[name] = { commit, date, minutes, isPassed, inputs: inputsOf(name, commit) };
  writeFileSync(resultsFile, `${JSON.stringify(results, null, 2)}\n`);
  writePage();
  console.log(`=== ${isPassed ? 'ok' : 'FAILED'} after ${minutes} min: ${name}`);
}
if (failed.length > 0) fail(`.ci/long: failed: ${failed.join(', ')}`);

function writePage() {
  writeFileSync(join(root, 'docs', 'testing', 'long-run.md'), pageText());
}

function pageText() {
  const rows = Object.entries(suites).map(([name, { finds, gate, long }]) => {
    const last = results[name];
    const when =
      last === undefined
        ? '**never**'
        : `${last.date}, ${last.commit}: ${last.isPassed ? 'passed' : '**failed**'}, ${last.minutes} min`;
    return `| \`npm run ${name}\` | ${finds} | ${gate} | ${long} | ${when} |`;
  });
  return `# The long run

\`.ci/run\` is the gate of each change; \`.ci/long\` runs every suite at its full size, and writes this page (\`scripts/long-run.mjs\`).
The gate runs no fewer kinds of tests, only fewer rounds. [Testing](../testing.md) explains the suites.

| Suite | What it finds | Size in the gate | Size in the long run | Last long run |
| ----- | ------------- | ---------------- | -------------------- | ------------- |
${rows.join('\n')}
`;
}

function git(...args) {
  return spawnSync('git', args, { cwd: root, encoding: 'utf8' }).stdout.trim();
}
