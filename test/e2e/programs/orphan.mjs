// Calls parent() without being a helper, or with a descriptor that is not one.
import { parent } from '../../../dist/index.js';
import { say } from './demo.mjs';

try {
  const session = await parent({ timeoutMs: 200 });
  say({ lane: session.lane });
  process.exit(1);
} catch (error) {
  say({ code: error.code, message: error.message, variable: process.env.SIDECALL_FD ?? null });
  process.exit(0);
}
