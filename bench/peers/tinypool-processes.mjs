import { opener } from './tinypool.mjs';

export const open = opener('child_process');
