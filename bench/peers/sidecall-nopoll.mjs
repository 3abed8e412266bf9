// sidecall with polling off at both ends.
import { open as openSidecall } from './sidecall.mjs';

export const open = (options) => openSidecall({ ...options, pollBudgetUs: 0 });
