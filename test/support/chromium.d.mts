import type { Page } from 'playwright-core';
import type { Helper } from '../../src/helper/spawn-helper.ts';

export declare function startElectronExample(options: {
  folder: string;
  file: string;
  viewport?: { width: number; height: number };
}): Promise<{
  page: Page;
  running: {
    helpers: { library: Helper; probe: Helper };
    window: { webPreferences: object };
  };
  /** What the page logged as an error, or threw. */
  errors: string[];
  stop: () => Promise<void>;
}>;
