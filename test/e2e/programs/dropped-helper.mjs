// A helper that gives up its privilege once its code is loaded, then meets its parent.
import { ownCredentials, parent } from '../../../dist/index.js';
import { Desk, handlers } from './desk.mjs';

const uid = Number(process.argv[2]);
ownCredentials(); // loads the addon
process.setgroups([]);
process.setgid(uid);
process.setuid(uid);
const session = await parent(process.argv[3] === undefined ? {} : JSON.parse(process.argv[3]));
session.serve(Desk, {
  ...handlers,
  whoami: (_request, { peer }) => ({ peer, uid: process.geteuid() }),
});
