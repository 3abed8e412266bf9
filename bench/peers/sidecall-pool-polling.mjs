// The same pool, told to poll, as it does not by itself where it is larger than the machine.
import { open as openPool } from './sidecall-pool.mjs';

export const open = (options) => openPool({ ...options, pollBudgetUs: 50 });
