// A peer that was written from docs/protocol.md alone: examples/python-helper.
import { describe, expect, it } from 'vitest';
import type { Helper } from '../../src/helper/spawn-helper.ts';
import { spawnHelper } from '../../src/helper/spawn-helper.ts';
import { json } from '../../src/rpc/contract/json.ts';
import { notification, serverStream, service, unary } from '../../src/rpc/contract/service.ts';
import { until } from '../support/contract.ts';
import { programPath } from '../support/programs.ts';

const value = { request: json(), response: json() };
const Py = service('Py', {
  echo: unary(value),
  note: notification({ request: json() }),
  noted: unary(value),
  fail: unary(value),
  upload: serverStream(value),
  forever: serverStream(value),
  missing: unary(value),
});
const example = new URL('../../examples/python-helper', import.meta.url).pathname;

async function start(limits = {}): Promise<Helper> {
  return spawnHelper('python3', [programPath('words.py'), example], { limits });
}

describe('a helper in Python', () => {
  it('answers calls, short and long, many at once, in order of notifications', async () => {
    const helper = await start({ receiveMaxBytes: 16 * 2 ** 20 });
    expect(helper.session.lane).toBe('socket');
    const py = helper.session.client(Py);
    expect(await py.echo({ of: ['all', 1, null, 'ü'] })).toEqual({ of: ['all', 1, null, 'ü'] });
    const long = 'x'.repeat(3_000_000);
    expect(await py.echo(long)).toBe(long);
    const many = await Promise.all(Array.from({ length: 2_000 }, (_, at) => py.echo(at)));
    expect(many).toEqual(Array.from({ length: 2_000 }, (_, at) => at));
    for (let at = 0; at < 100; at += 1) await py.note(at);
    expect(await py.noted(null)).toEqual(Array.from({ length: 100 }, (_, at) => at));
    // More than any window: what was charged has come back.
    for (let at = 0; at < 20; at += 1) expect(await py.echo(long)).toBe(long);
    await helper.stop();
  });

  it('answers by streams, with backpressure, and is told when nobody reads on', async () => {
    const helper = await start();
    const py = helper.session.client(Py);
    let count = 0;
    for await (const { number } of py.upload(5_000) as AsyncIterable<{ number: number }>) {
      expect(number).toBe(count);
      count += 1;
    }
    expect(count).toBe(5_000);
    // Neither is read, and calls go on beside them.
    const unread = [py.upload(10_000), py.upload(10_000)];
    expect(await py.echo('beside')).toBe('beside');
    for (const stream of unread) await stream.return();
    for await (const _ of py.forever(null)) break;
    await until(async () => ((await py.noted(null)) as string[]).includes('closed'));
    const late = py.forever(null, { timeoutMs: 200 });
    await expect(
      (async () => {
        for await (const _ of late);
      })(),
    ).rejects.toMatchObject({ code: 'ERR_SIDECALL_DEADLINE_EXCEEDED' });
    expect(await py.echo('after')).toBe('after');
    await helper.stop();
  });

  it('refuses what it does not serve, and says that a handler failed, but not how', async () => {
    const helper = await start();
    const py = helper.session.client(Py);
    await expect(py.missing(1)).rejects.toMatchObject({ status: 'unimplemented' });
    await expect(py.fail(1)).rejects.toMatchObject({
      status: 'internal',
      message: 'Py.fail: LookupError',
    });
    await expect(helper.session.call('Py.upload', 1)).rejects.toMatchObject({
      status: 'unimplemented',
    });
    expect(await py.echo('after')).toBe('after');
    await helper.stop();
  });
});
