// A helper: serves the desk to its parent, and calls back where asked.
import { parent } from '../../../dist/index.js';
import { Desk, handlers } from './desk.mjs';

const session = await parent(process.argv[2] === undefined ? {} : JSON.parse(process.argv[2]));
session.serve(Desk, {
  ...handlers,
  callBack: async (request) => session.client(Desk).add(request),
});
