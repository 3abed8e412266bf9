// Serves everything to the process that started it.
import { parent, server } from '../../../dist/index.js';
import { Everything, handlers } from './everything.mjs';

const app = server();
app.serve(Everything, handlers());
await parent({ services: app });
