// A helper of the pool of sidecall.
import { parent, service, unary } from '../../dist/index.js';
import work from './pool-work.mjs';

const session = await parent();
session.serve(service('Work', { work: unary() }), { work });
