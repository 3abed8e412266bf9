// Another user: gives up its privilege, then tries to get in. Its code is loaded before, because
// the checkout may be unreadable to other users.
import { connect, ownCredentials } from '../dist/index.js';

const [path, id] = process.argv.slice(2);
ownCredentials();
process.setgroups([]);
process.setgid(Number(id));
process.setuid(Number(id));
try {
  const session = await connect({ path, expect: { uid: 0, modes: ['0666'] } });
  await session.close();
  console.log('let in');
} catch (error) {
  console.log(error.code);
}
