// Connects to a path, as another user where a uid is given, calls once, and prints the outcome.
import { connect, ownCredentials } from '../../../dist/index.js';
import { Demo, say } from './demo.mjs';

const [path, options, uid, gid, groups] = process.argv.slice(2);
const probe = ownCredentials(); // the addon is loaded before the checkout becomes unreadable
if (uid !== undefined) {
  process.setgroups(groups === undefined ? [] : groups.split(',').map(Number));
  process.setgid(Number(gid ?? uid));
  process.setuid(Number(uid));
}
try {
  const session = await connect({ path, ...JSON.parse(options ?? '{}') });
  const { peer } = await session.client(Demo).whoami();
  say({
    own: ownCredentials(),
    seen: peer,
    server: session.peer,
    started: probe.uid,
    lane: session.lane,
  });
  await session.close();
} catch (error) {
  say({ code: error.code, message: error.message });
}
