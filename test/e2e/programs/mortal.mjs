// A helper that kills itself at a record: the DIE_AT-th time that it would show something to its
// parent. Into LOG it writes what it had shown before: the notifications that were published, and
// the calls that its handlers saw.
import { openSync, writeSync } from 'node:fs';
import { Socket } from 'node:net';
import { bytes, notification, parent, service, unary } from '../../../dist/index.js';
import { Ring } from '../../../dist/internal/shm/ring.js';

const dieAt = Number(process.env.DIE_AT);
const log = openSync(process.env.LOG, 'a');
const [openType, notificationKind] = [2, 2];
let points = 0;
let written = 0;

function point() {
  points += 1;
  if (points === dieAt) process.kill(process.pid, 'SIGKILL');
}

function say(line) {
  writeSync(log, `${line}\n`);
}

function countNote(header) {
  if (header[0] === openType && header[2] === notificationKind) written += 1;
}

/** Calls `point` before a method, and `then` behind it. */
function wrap(prototype, name, then) {
  const original = prototype[name];
  prototype[name] = function (...args) {
    point();
    const result = original.apply(this, args);
    then(args, result);
    return result;
  };
}

wrap(Ring.prototype, 'write', ([header], result) => result === 1 && countNote(header));
wrap(Ring.prototype, 'publish', () => say(`published ${written}`));
wrap(Ring.prototype, 'prepareToSleep', () => say(`published ${written}`));

/** The frames of a write to a socket: each has its length in front. */
function countNotesIn(chunk) {
  for (let at = 0; at + 4 < chunk.byteLength; at += 4 + chunk.readUInt32LE(at)) {
    countNote(chunk.subarray(at + 4));
  }
}

const { write } = Socket.prototype;
Socket.prototype.write = function (chunk, then) {
  if (!Buffer.isBuffer(chunk) || typeof then !== 'function') return write.call(this, chunk, then);
  point();
  countNotesIn(chunk);
  const taken = written;
  return write.call(this, chunk, (error) => {
    if (!error) say(`published ${taken}`);
    point();
    then(error);
  });
};

const Mortal = service('Mortal', {
  add: unary(),
  long: unary({ request: bytes, response: bytes }),
});
const App = service('App', { note: notification(), get: unary() });

const session = await parent({ lane: process.env.LANE });
session.serve(Mortal, {
  add: ({ id }) => {
    say(`saw ${id}`);
    return { id };
  },
  long: (message) => message,
});
const app = session.client(App);
for (let at = 1; at <= Number(process.env.NOTES); at += 1) {
  const noted = app.note(at);
  if (at % 7 === 0) await app.get(at);
  if (at % 5 === 0) await noted;
}
say('done');
