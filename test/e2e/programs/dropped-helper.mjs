// A helper that drops its privileges after its code is loaded, then calls parent().
import { ownCredentials, parent } from '../../../dist/index.js';
import { Demo, handlers } from './demo.mjs';

const [given, options = '{}', when = 'before'] = process.argv.slice(2);
const uid = Number(given);
ownCredentials(); // loads the addon

function drop() {
  process.setgroups([]);
  process.setgid(uid);
  process.setuid(uid);
}

if (when === 'before') drop();
const session = await parent(JSON.parse(options));
if (when === 'after') drop();
session.serve(Demo, {
  ...handlers,
  whoami: (_request, { peer }) => ({ peer, uid: process.geteuid() }),
});
