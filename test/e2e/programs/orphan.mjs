// Calls parent() in a process that is no helper, or with an invalid descriptor.
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
