// A helper that stands at the moment that it is told, and computes for ever there.
import { appendFileSync } from 'node:fs';

const { MOMENT: moment, PIDS: file } = process.env;
const stand = () => {
  appendFileSync(file, 'ready\n');
  for (;;);
};
if (moment === 'before the import') stand();
const { parent } = await import('../../../../dist/index.js');
if (moment === 'before parent()') stand();
await parent();
stand();
