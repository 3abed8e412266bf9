// The screen of `sidecall top`, as text.
import { describe, expect, it } from 'vitest';
import { firstView, plainScreen, screenLines } from '../../../src/cli/top/screen.ts';
import { latency, reported, snapshotOf } from '../../support/reported.ts';

const screen = { columns: 130, rows: 12, hasColor: false };
const many = snapshotOf(Array.from({ length: 40 }, (_, at) => reported(at + 1, 0, {})));

describe('the table', () => {
  it('has a line for each session, and says what waits', () => {
    const waits = { ...reported(1, 0, {}).stats.waits, 'stream-window': 3 };
    const lines = screenLines(snapshotOf([reported(1, 0, { waits })]), firstView, plainScreen);
    expect(lines[0]).toBe(
      'process 7 · Node v20.0.0 · sidecall 1.0.0 · up 1 min 1 s · 64 MB · answered in 400 µs',
    );
    expect(lines[1]).toBe('1 session · - calls/s · 3 waiting · sorted by calls');
    expect(lines[4]).toMatch(/^ {7}1 {6}41 {3}ring .*stream-window 3$/);
  });

  it('is as high and as wide as the screen, and keeps the cursor on it', () => {
    for (const chosen of ['1', '20', '40']) {
      const lines = screenLines(many, { ...firstView, chosen, sortedBy: 'id' }, screen);
      expect(lines.length).toBeLessThan(screen.rows);
      expect(lines.filter((line) => line.startsWith('>'))).toHaveLength(1);
      expect(lines.find((line) => line.startsWith('>'))).toMatch(new RegExp(`^> +${chosen} `));
    }
    const narrow = screenLines(many, firstView, { ...screen, columns: 20 });
    expect(Math.max(...narrow.map((line) => [...line].length))).toBe(20);
  });

  it('has no control characters of the process', () => {
    const [thread] = snapshotOf([]).threads;
    const forged = { ...thread?.thread, node: '\u001b[2Jv20' } as never;
    const threads = [{ threadId: 0, copy: 1, sessions: [], error: undefined, thread: forged }];
    expect(screenLines({ ...many, threads }, firstView, screen).join('')).not.toContain('\u001b');
  });

  it('says so where the process does not answer, or has no session', () => {
    const problem = 'process 7 has not answered for 3000 ms';
    expect(screenLines({ ...many, problem }, firstView, screen)).toContain(problem);
    expect(screenLines(snapshotOf([]), firstView, screen)).toContain('No session is open.');
  });
});

describe('one session', () => {
  const view = { ...firstView, isInside: true, chosen: '2' };

  it('shows its calls and its methods, without control characters of the peer', () => {
    const methods = { called: [latency('A.\u001b[2Jb', 1_200, 50)], served: [] };
    const snapshot = snapshotOf([reported(1, 0, {}), reported(2, 0, { methods })]);
    const lines = screenLines(snapshot, view, plainScreen);
    expect(lines).toContain('session 2: open, lane ring (both sides have the addon)');
    expect(lines.find((line) => line.includes('A.'))).toBe(
      `  ${'A.\ufffd[2Jb'.padEnd(30)}     1,200   1.0 ms   4.0 ms   9.0 ms    12 ms`,
    );
  });

  it('is not taken for another where it is over', () => {
    const lines = screenLines(many, { ...view, chosen: '41' }, screen);
    expect(lines).toContain('The session is over.');
  });

  it('scrolls to its last line, and no further', () => {
    const all = screenLines(many, view, plainScreen);
    const scrolled = screenLines(many, { ...view, scrolled: 1_000 }, screen);
    const last = scrolled.at(-3);
    expect(all.at(-1)).toBe(last);
    expect(scrolled[3]).not.toBe(screenLines(many, view, screen)[3]);
  });
});
