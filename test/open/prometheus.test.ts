// The text that Prometheus reads: each line well-formed, each number that of `stats()`.
import { expect, it } from 'vitest';
import { toPrometheus } from '../../src/open/prometheus.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';
import { SessionSums } from '../../src/rpc/session/session-sums.ts';
import { createSessionPair } from '../../src/testing/session-pair.ts';

const Shop = service('Shop', { price: unary<string, number>() });

/** The samples of a text by name and labels. Fails where a line is not well-formed. */
function parsed(text: string): Map<string, number> {
  const samples = new Map<string, number>();
  const kinds = new Map<string, string>();
  expect(text.endsWith('\n')).toBe(true);
  for (const line of text.slice(0, -1).split('\n')) {
    if (line.startsWith('# HELP ')) {
      expect(line).toMatch(/^# HELP sidecall_[a-z_]+ [^\n\\]+$/);
      continue;
    }
    const kind = /^# TYPE (sidecall_[a-z_]+) (counter|gauge|summary)$/.exec(line);
    if (kind !== null) {
      expect(kinds.has(kind[1] as string), line).toBe(false); // one place for each metric
      kinds.set(kind[1] as string, kind[2] as string);
      continue;
    }
    const label = '[a-z]+="(?:[^"\\\\\\n]|\\\\["\\\\n])*"';
    const form = new RegExp(`^([a-z_]+)(\\{${label}(?:,${label})*\\})? (NaN|[-+0-9.e]+)$`);
    const [, name = '', labels = '', value = ''] = form.exec(line) ?? [];
    expect(name, line).not.toBe('');
    expect(kinds.has(name.replace(/_(sum|count)$/, '')) || kinds.has(name), line).toBe(true);
    expect(samples.has(name + labels), line).toBe(false);
    samples.set(name + labels, Number(value));
  }
  return samples;
}

it('has every number of a session, with the labels of its caller', async () => {
  await using pair = createSessionPair();
  pair.far.serve(Shop, {
    price: (name) => {
      if (name === 'none') throw new Error('no such thing');
      return name.length;
    },
  });
  const shop = pair.near.client(Shop);
  for (const name of ['tea', 'coffee']) await shop.price(name);
  await shop.price('none').catch(() => undefined);
  const stats = pair.near.stats();
  const samples = parsed(toPrometheus(stats, { program: 'a "b"\\\n' }));
  const own = 'program="a \\"b\\"\\\\\\n"';
  const method = `${own},side="called",method="Shop.price",kind="unary"`;
  const latency = stats.methods.called[0]?.latencyMs;
  const expected = {
    [`calls_total{${method},outcome="succeeded"}`]: 2,
    [`calls_total{${method},outcome="failed"}`]: 1,
    [`call_duration_seconds{${method},quantile="0.5"}`]: (latency?.p50 as number) / 1e3,
    [`call_duration_seconds{${method},quantile="1"}`]: (latency?.max as number) / 1e3,
    [`call_duration_seconds_sum{${method}}`]: (latency?.sum as number) / 1e3,
    [`call_duration_seconds_count{${method}}`]: 3,
    [`call_ends_total{${own},side="called",reason="internal"}`]: 1,
    [`calls_open{${own}}`]: 0,
    [`messages_total{${own},direction="sent"}`]: 3,
    [`messages_total{${own},direction="received"}`]: 2,
    [`message_bytes_total{${own},direction="sent"}`]: '"tea""coffee""none"'.length,
    [`frames_total{${own},direction="sent"}`]: stats.frames.sent,
    [`waits{${own},reason="slot"}`]: 0,
    [`waits_total{${own},reason="slot"}`]: 0,
    [`wait_seconds_total{${own},reason="slot"}`]: 0,
    [`queued_bytes{${own}}`]: 0,
  };
  for (const [name, value] of Object.entries(expected)) {
    expect(samples.get(`sidecall_${name}`), name).toBe(value);
  }
});

it('has the sessions of a sum, and says of no duration that it is not a number', () => {
  const samples = parsed(toPrometheus(SessionSums.of([])));
  expect(samples.get('sidecall_sessions_open')).toBe(0);
  expect(samples.get('sidecall_sessions_ended_total')).toBe(0);
  expect(samples.get('sidecall_handlers_running')).toBe(0);
});

it.each(['', 'a-b', '1a', '__a', 'ä'])('refuses the label %j', (name) => {
  expect(() => toPrometheus(SessionSums.of([]), { [name]: 'x' })).toThrow('is no name of a label');
});
