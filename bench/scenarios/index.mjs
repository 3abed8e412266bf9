// Every scenario by its name.
import { echo } from './echo.mjs';
import { idle } from './idle.mjs';
import { memory } from './memory.mjs';
import { paced } from './paced.mjs';
import { reliability } from './reliability.mjs';
import { wake } from './wake.mjs';

export const scenarios = { echo, wake, paced, memory, idle, reliability };
