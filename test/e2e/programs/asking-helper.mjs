// A helper that calls its parent back.
import { parent, service, unary } from '../../../dist/index.js';
import { Demo } from './demo.mjs';

const Ask = service('Ask', { sum: unary() });
const session = await parent();
session.serve(Ask, { sum: (numbers) => session.client(Demo).add(numbers) });
