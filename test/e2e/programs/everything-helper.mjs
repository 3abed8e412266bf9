// Serves everything to the process that started it, and why its lane is the one it is.
import { parent, server, service, unary } from '../../../dist/index.js';
import { Everything, handlers } from './everything.mjs';

const app = server();
app.serve(Everything, handlers());
app.serve(service('test.Lane', { reason: unary() }), {
  reason: async () => (await meeting).laneReason,
});
const meeting = parent({ services: app, lane: process.argv[2] });
await meeting;
