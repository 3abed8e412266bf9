import { configDefaults, defineConfig } from 'vitest/config';

// `npm run test:interop` sets it: programs of other languages, which have to be built before.
const isInterop = process.env.SIDECALL_INTEROP === '1';
const interop = 'test/interop/**/*.test.ts';

export default defineConfig({
  test: {
    include: [isInterop ? interop : 'test/**/*.test.ts'],
    exclude: isInterop ? configDefaults.exclude : [...configDefaults.exclude, interop],
    setupFiles: ['test/support/setup.ts'],
    globalSetup: ['test/support/global.ts'],
    // A crash stays in its file. No retries: they hide races. The time-out is a watchdog, not a bound.
    pool: 'forks',
    retry: 0,
    testTimeout: 300_000,
    hookTimeout: 60_000,
    // Many tests wait: four of them use two processors better than two do.
    maxWorkers: 4,
    execArgv: ['--expose-gc', '--disable-warning=SIDECALL_HANDLER_FAILED'],
  },
});
