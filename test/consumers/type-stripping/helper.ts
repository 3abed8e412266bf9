import { parent } from 'sidecall';
import { Sums } from './contract.ts';

const session = await parent();
session.serve(Sums, { add: ({ a, b }) => a + b });
