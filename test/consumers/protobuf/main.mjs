// A service whose messages are of another package, from the contracts of `sidecall gen`.
import assert from 'node:assert/strict';
import { createSessionPair } from 'sidecall/testing';
import { Desk } from './desk_sidecall.js';

const pair = createSessionPair();
pair.far.serve(Desk, {
  greet: (person) => ({ text: `hello, ${person.name}`, to: person, at: { seconds: 5 } }),
  async *same(people) {
    yield* people;
  },
  now: (instant) => instant,
});
const desk = pair.near.client(Desk);
const { text, to, at } = await desk.greet({ name: 'Ada', age: 36, tags: ['x'] });
assert.deepEqual([to.age, Number(at.seconds)], [36, 5]);
const same = desk.same();
await same.send({ name: 'Grace' });
same.end();
for await (const { name } of same) assert.equal(name, 'Grace');
await pair.close();
console.log(text);
