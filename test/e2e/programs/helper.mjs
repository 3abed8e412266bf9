// A helper: serves the demo to its parent, and calls back on request.
import { parent } from '../../../dist/index.js';
import { Demo, handlers } from './demo.mjs';

const session = await parent(process.argv[2] === undefined ? {} : JSON.parse(process.argv[2]));
session.serve(Demo, {
  ...handlers,
  callBack: async (request) => session.client(Demo).add(request),
});
