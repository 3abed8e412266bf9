// A connection with `reconnect` whose path another user takes.
import { chownSync, readdirSync, rmSync } from 'node:fs';
import { expect, it } from 'vitest';
import type { SidecallEvent } from '../../src/base/events.ts';
import { connect } from '../../src/rendezvous/connect.ts';
import type { ConnectionState } from '../../src/rendezvous/connection-state.ts';
import { type ListenOptions, listen } from '../../src/rendezvous/listen.ts';
import type { Listener } from '../../src/rendezvous/listener.ts';
import { Demo, demoHandlers, until } from '../support/contract.ts';
import { startProgram } from '../support/programs.ts';
import { alice, openDirectory } from '../support/users.ts';

async function listenAt(path: string, options: ListenOptions = {}): Promise<Listener> {
  const listener = await listen({ path, ...options });
  listener.serve(Demo, demoHandlers());
  return listener;
}

it('refuses a process of another user each time, says so once, and goes on', async () => {
  using directory = openDirectory();
  const path = directory.file('socket');
  const events: SidecallEvent[] = [];
  const listener = await listenAt(path, { unsafeDirectory: true });
  await using connection = await connect({
    path,
    unsafeDirectory: true,
    reconnect: { firstMs: 5, maxMs: 20 },
    onEvent: (event) => events.push(event),
  });
  const seen: ConnectionState[] = [];
  void (async () => {
    for await (const state of connection.states()) seen.push(state);
  })();
  await listener.close();
  chownSync(directory.path, alice, alice);
  const options = JSON.stringify({ path, unsafeDirectory: true, authorize: { uid: 0 } });
  await using squatter = startProgram('listener.mjs', [options, String(alice)]);
  await squatter.next();
  const refusals = (): number =>
    seen.filter(
      (each) => each.state === 'reconnecting' && each.error.code === 'ERR_SIDECALL_PATH_UNSAFE',
    ).length;
  await until(() => refusals() > 10);
  expect(events.filter(({ error }) => error.code === 'ERR_SIDECALL_PATH_UNSAFE')).toHaveLength(1);
  squatter.child.kill('SIGKILL');
  await squatter.exited;
  chownSync(directory.path, 0, 0);
  for (const file of readdirSync(directory.path)) rmSync(directory.file(file));
  await using _back = await listenAt(path, { unsafeDirectory: true });
  expect(await connection.client(Demo).add({ a: 1, b: 4 })).toEqual({ sum: 5 });
});
