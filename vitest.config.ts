import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    setupFiles: ['test/support/setup.ts'],
    globalSetup: ['test/support/global.ts'],
    // A crash stays in its file. No retries: they hide races. The time-out is a watchdog, not a bound.
    pool: 'forks',
    retry: 0,
    testTimeout: 120_000,
    hookTimeout: 60_000,
    // Many tests wait: four of them use two processors better than two do.
    maxWorkers: 4,
    execArgv: ['--expose-gc', '--disable-warning=SIDECALL_HANDLER_FAILED'],
  },
});
