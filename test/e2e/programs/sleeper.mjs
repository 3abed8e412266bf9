// A helper that never polls: it sleeps as soon as it has nothing to do.
import { parent } from '../../../dist/index.js';
import { Demo, handlers } from './demo.mjs';

const session = await parent({ pollBudgetUs: 0 });
session.serve(Demo, handlers);
