import { opener } from './tinypool.mjs';

export const open = opener('worker_threads');
