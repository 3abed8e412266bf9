import { expect, it } from 'vitest';
import type { ThreadReport } from '../../src/cli/inspect-process.ts';
import { printInspection } from '../../src/cli/print-inspection.ts';
import { Demo, demoHandlers } from '../support/contract.ts';
import { openRingPair } from '../support/pairs.ts';

it('prints names that a peer has chosen without control characters and without line breaks', async () => {
  await using pair = await openRingPair({}, {});
  pair.far.serve(Demo, demoHandlers());
  await pair.near.client(Demo).echo(Buffer.alloc(1));
  const { streams, ring, ...rest } = pair.near.inspect();
  const forged = {
    id: '0.1',
    openedBy: 'peer',
    method: 'Work.\u001b[2J\r\nsession 9: \u009b1m\u202eforged',
    kind: 'unary',
    state: 'open',
    waitsFor: undefined,
    ageMs: 4_200,
    deadlineInMs: -1_500,
    sending: undefined,
    untakenBytes: undefined,
  } as const;
  const waiting = {
    ...forged,
    id: undefined,
    openedBy: 'us',
    method: 'Index.add',
    state: 'waiting',
    waitsFor: 'slot',
    ageMs: 3_000,
    deadlineInMs: undefined,
  } as const;
  const arriving = { ...forged, id: '1.1', method: 'Index.put', state: 'waiting' } as const;
  const report: ThreadReport = {
    threadId: 0,
    copy: 1,
    error: undefined,
    thread: {
      sidecall: '1.0.0',
      node: 'v20',
      pid: 7,
      threadId: 0,
      uptimeMs: 3_725_000,
      residentBytes: 64_000_000,
      sessions: 1,
    },
    sessions: [
      { ...rest, atMs: 0, streams: [...streams, forged, waiting, arriving], moreStreams: 3, ring },
    ],
  };
  const lines = printInspection({ threads: [report] }).split('\n');
  expect(lines[0]).toBe('process 7: Node v20, sidecall 1.0.0, for 1 h 2 min, 64 MB');
  const call = lines.find((line) => line.includes('Work.'));
  expect(call).toBe(
    "  the peer's call 0.1 Work.\ufffd[2J\ufffd\ufffdsession 9: \ufffd1m\ufffdforged: unary, open for 4.2 s; its deadline passed 1.5 s ago",
  );
  expect(lines).toContain('  our call Index.add: unary, waiting for slot for 3.0 s; no deadline');
  expect(
    lines.filter((line) => line.includes('Index.put: unary, arriving for 4.2 s;')),
  ).toHaveLength(1);
  expect(lines).toContain('  and 3 more calls and streams');
  expect(lines.filter((line) => line.startsWith('session '))).toHaveLength(1);
});
