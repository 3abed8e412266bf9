// The socket of an inspection, as the system and other processes see it.
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { spawnHelper } from '../../src/helper/spawn-helper.ts';
import { connect } from '../../src/rendezvous/connect.ts';
import {
  type InspectionRequest,
  InspectionService,
} from '../../src/rendezvous/inspection-service.ts';
import type { Session } from '../../src/rpc/session/session.ts';
import { until } from '../support/contract.ts';
import { programPath, scratchDirectory } from '../support/programs.ts';

function socketOf(runtime: string, pid: number): string {
  return join(runtime, 'sidecall', `inspect-${pid}.sock`);
}

function inspectable(runtime: string): NodeJS.ProcessEnv {
  return { ...process.env, SIDECALL_INSPECT: '1', XDG_RUNTIME_DIR: runtime };
}

async function seenBy(session: Session): Promise<readonly unknown[]> {
  const parts: unknown[] = [];
  for await (const part of session.client(InspectionService).sessions()) parts.push(part);
  return parts;
}

it('is for its own user alone, for eight at once, and shows none of those that look', async () => {
  using runtime = scratchDirectory();
  const env = inspectable(runtime.path);
  await using helper = await spawnHelper(process.execPath, [programPath('helper.mjs')], { env });
  const path = socketOf(runtime.path, helper.pid);
  const mode = (file: string): number => statSync(file).mode & 0o777;
  expect([mode(path), mode(join(runtime.path, 'sidecall'))]).toEqual([0o600, 0o700]);

  const looking: Session[] = [];
  while (looking.length < 8) looking.push(await connect({ path, lane: 'socket' }));
  await expect(connect({ path })).rejects.toMatchObject({
    code: 'ERR_SIDECALL_LIMIT_CONNECTIONS',
  });
  const [thread, session, ...more] = await seenBy(looking[0] as Session);
  expect(more).toEqual([]);
  expect(thread).toMatchObject({ thread: { pid: helper.pid, sessions: 1 } });
  expect(session).toMatchObject({
    sessions: [{ state: 'open', peer: { origin: 'parent', pid: process.pid } }],
  });
  for (const one of looking) await one.close();
  await until(async () => {
    const again = await connect({ path }).catch(() => undefined);
    await again?.close();
    return again !== undefined;
  });
});

it('reports calls and rings of the sessions that are asked for, and refuses what is no session', async () => {
  using runtime = scratchDirectory();
  const env = inspectable(runtime.path);
  await using helper = await spawnHelper(process.execPath, [programPath('helper.mjs')], { env });
  await using looking = await connect({ path: socketOf(runtime.path, helper.pid), lane: 'socket' });
  const ringsOf = async (request: InspectionRequest): Promise<boolean[]> => {
    const rings: boolean[] = [];
    for await (const part of looking.client(InspectionService).sessions(request)) {
      if ('sessions' in part) rings.push(...part.sessions.map(({ ring }) => ring !== undefined));
    }
    return rings;
  };
  expect(await ringsOf({})).toEqual([true]);
  expect(await ringsOf({ detailed: [] })).toEqual([false]);
  // As many as a person could ask for, of which the helper has one.
  const ids = Array.from({ length: 1_000 }, (_, at) => at + 1);
  expect(await ringsOf({ detailed: ids })).toEqual([true]);
  for (const detailed of [[...ids, 1_001], ['1'], {}, null] as unknown as number[][]) {
    await expect(ringsOf({ detailed })).rejects.toMatchObject({ status: 'invalid_argument' });
  }
});

it('warns where its directory lets others in, and everything else works', () => {
  using runtime = scratchDirectory();
  mkdirSync(join(runtime.path, 'sidecall'));
  chmodSync(join(runtime.path, 'sidecall'), 0o755);
  const told = JSON.stringify({ path: runtime.file('s'), isLeaving: true });
  const { stdout, stderr, status } = spawnSync(
    process.execPath,
    [programPath('inspected.mjs'), told],
    { env: inspectable(runtime.path), encoding: 'utf8' },
  );
  expect({ status, stdout: stdout.trim() }).toMatchObject({
    status: 0,
    stdout: expect.stringContaining('"pid"'),
  });
  expect(stderr).toMatch(
    /\[SIDECALL_NO_INSPECTION\] SidecallWarning: this process cannot be inspected: .* has mode 0755, so others can enter it/,
  );
});

it('warns where there is no addon', () => {
  using runtime = scratchDirectory();
  const told = JSON.stringify({
    path: runtime.file('s'),
    isLeaving: true,
    identity: 'path-permissions',
  });
  const { stderr } = spawnSync(process.execPath, [programPath('inspected.mjs'), told], {
    env: { ...inspectable(runtime.path), SIDECALL_NATIVE: 'off' },
    encoding: 'utf8',
  });
  expect(stderr).toMatch(
    /\[SIDECALL_NO_INSPECTION\] SidecallWarning: this process cannot be inspected/,
  );
});

it('a process that asks and gives up again and again gets no more turns than one that waits', async () => {
  using runtime = scratchDirectory();
  const env = inspectable(runtime.path);
  await using helper = await spawnHelper(process.execPath, [programPath('helper.mjs')], { env });
  await using session = await connect({ path: socketOf(runtime.path, helper.pid), lane: 'socket' });
  const begun = performance.now();
  let asked = 0;
  while (performance.now() - begun < 2_000) {
    for await (const _part of session.client(InspectionService).sessions()) break;
    asked += 1;
  }
  // 114 and 116 were seen, and 910 without the pauses.
  expect(asked).toBeGreaterThan(0);
  expect(asked).toBeLessThan(500);
});
