// The export of a recording, as Wireshark's own program reads it.
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { spawnHelper } from '../../src/helper/spawn-helper.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';
import { until } from '../support/contract.ts';
import { command } from '../support/inspected.ts';
import { programPath, scratchDirectory } from '../support/programs.ts';

const Work = service('Work', { a: unary<number, unknown>(), b: unary<number, unknown>() });

it('a recording that is exported has the same frames in tshark', async () => {
  using folder = scratchDirectory();
  const helper = await spawnHelper(process.execPath, [programPath('recorded.mjs')], {
    stdout: 'ignore',
    recorder: 'frames',
  });
  const client = helper.client(Work);
  for (let at = 0; at < 5; at += 1) await client.a(1);
  void client.b(-1).catch(() => undefined);
  await until(() => helper.recording()?.runningCount === 1);
  process.kill(helper.pid, 'SIGKILL');
  await helper.exited;
  const recording = helper.recording();
  await recording?.save(folder.file('dead.rec'));
  const packets = folder.file('out.pcapng');
  const args = [command, 'inspect', folder.file('dead.rec'), '--jsonl', '--pcapng', packets];
  const events = execFileSync(process.execPath, args, { encoding: 'utf8' })
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));

  const shown = tshark(packets, ['event', 'type', 'session', 'stream', 'payload', 'method']);
  const numbers = { sent: '1', received: '2', sessionBegan: '3', sessionEnded: '4' };
  const expected = events
    .filter(({ what }) => what in numbers)
    .map(({ what, type, header, slot, generation, payloadBytes, session, method = '' }) => [
      numbers[what as keyof typeof numbers],
      type === undefined ? '' : String(header[0]),
      String(session),
      type === undefined || generation === 0 ? '' : `${slot}.${generation}`,
      type === undefined ? '' : String(payloadBytes),
      method,
    ]);
  expect(shown.slice(0, -1)).toEqual(expected);
  const [running] = recording?.running ?? [];
  expect(shown.at(-1)).toEqual(['5', '', '1', running?.id, '', 'Work.b']);
  expect(tshark(packets, ['malformed']).flat().join('')).toBe('');
});

/** Fields of each packet, as Wireshark's own program sees them. */
function tshark(file: string, fields: readonly string[]): string[][] {
  const dissector = join(import.meta.dirname, '..', '..', 'tools', 'wireshark', 'sidecall.lua');
  const args = ['-X', `lua_script:${dissector}`, '-r', file, '-T', 'fields', '-E', 'separator=|'];
  for (const field of fields) args.push('-e', `sidecall.${field}`);
  const output = execFileSync('tshark', args, {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  return output
    .trimEnd()
    .split('\n')
    .map((line) => line.split('|'));
}
