import { configDefaults, defineConfig } from 'vitest/config';
import { suites } from './scripts/suites.mjs';

const inSuites = Object.values(suites).flatMap(({ files = [] }) => files);
// `npm run test:users` and its like set it: tests that need tools or rights of their own.
const suite = process.env.SIDECALL_SUITE;
// Units that start no process and keep nothing in the process share one: a start costs a second.
const units = [
  'test/base/{closest,fifo,histogram,misuse,pause}.test.ts',
  'test/base/limits/**/*.test.ts',
  'test/wire/**/*.test.ts',
  'test/cli/live/**/*.test.ts',
  'test/loop/**/*.test.ts',
  'test/rpc/*.test.ts',
  'test/rpc/counting/**/*.test.ts',
  'test/rpc/contract/**/*.test.ts',
  'test/rpc/calling/**/*.test.ts',
  'test/rpc/sending/**/*.test.ts',
  'test/rpc/serving/**/*.test.ts',
  'test/lasting/**/*.test.ts',
  'test/testing/**/*.test.ts',
  'test/cli/top/{keys,screen}.test.ts',
  'test/cli/web/{samples,page-data,unproven-connections}.test.ts',
  'test/pool/{map-items,rendezvous-hash,slow-member}.test.ts',
  'test/shared/{bounded-log,shared-service,version-order}.test.ts',
  'test/adapters/golib/{chunk-framing,payload}.test.ts',
  'test/bench/statistics.test.ts',
  'test/{requirements,tidy}.test.ts',
];
const exclude = [...configDefaults.exclude, ...inSuites];

export default defineConfig({
  test: {
    // Many tests wait: four of them use two processors better than two do.
    maxWorkers: 4,
    // A crash stays in its file. No retries: they hide races. The time-out is a watchdog, not a bound.
    pool: 'forks',
    retry: 0,
    testTimeout: 300_000,
    hookTimeout: 300_000,
    setupFiles: ['test/support/setup.ts'],
    execArgv: ['--expose-gc', '--disable-warning=SIDECALL_HANDLER_FAILED'],
    projects:
      suite === undefined
        ? [
            { extends: true, test: { name: 'units', include: units, exclude, isolate: false } },
            {
              extends: true,
              test: {
                name: 'tests',
                include: ['test/**/*.test.ts'],
                exclude: [...exclude, ...units],
              },
            },
          ]
        : suite.split(',').map((name) => ({
            extends: true,
            test: { name, include: suites[name].files },
          })),
  },
});
