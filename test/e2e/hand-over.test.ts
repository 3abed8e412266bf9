// A path whose process changes under load: each call is accounted for on both sides.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { createInterface } from 'node:readline';
import { describe, expect, it } from 'vitest';
import { connectPool } from '../../src/pool/connect-pool.ts';
import { connect } from '../../src/rendezvous/connect.ts';
import type { HandedOver } from '../../src/rendezvous/hand-over.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';
import { until } from '../support/contract.ts';
import { programPath, scratchDirectory, startProgram } from '../support/programs.ts';
import { rounds } from '../support/rounds.ts';

const Count = service('Count', {
  take: unary<number, number>(),
  /** Answers once the file exists. */
  hold: unary<string, void>(),
  where: unary<void, number>(),
});

interface Generation extends AsyncDisposable {
  readonly child: ChildProcess;
  /** Resolves once it listens. */
  readonly listening: Promise<unknown>;
  readonly handedOver: Promise<HandedOver>;
  readonly exited: Promise<unknown>;
}

/** Starts generations that write what they handle into one file. */
class Ledger {
  readonly #path: string;
  readonly #file: string;
  #number = 0;

  constructor(path: string, file: string) {
    this.#path = path;
    this.#file = file;
  }

  start(manner = '', deadlineMs = 600_000): Generation {
    this.#number += 1;
    const file = openSync(this.#file, 'a');
    const settings = [String(this.#number), manner, String(deadlineMs)];
    const args = [programPath('generation.mjs'), this.#path, ...settings];
    // A listener that is killed while it offers its socket leaves a directory for the next process.
    const env = { ...process.env, TMPDIR: dirname(this.#path) };
    const stdio = ['ignore', 'pipe', 'inherit', file] as const;
    const child = spawn(process.execPath, args, { stdio: [...stdio], env });
    closeSync(file);
    const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
    let resolveHandedOver: (result: HandedOver) => void;
    const handedOver = new Promise<HandedOver>((resolve) => {
      resolveHandedOver = resolve;
    });
    const listening = new Promise((resolve) => {
      lines.on('line', (line) => {
        const said = JSON.parse(line);
        if ('listening' in said) resolve(said.listening);
        else resolveHandedOver(said.handedOver);
      });
    });
    const exited = once(child, 'close');
    return {
      child,
      listening,
      handedOver,
      exited,
      [Symbol.asyncDispose]: async () => {
        child.kill('SIGKILL');
        await exited;
      },
    };
  }

  /** How often each id was handled. */
  handled(): Map<number, number> {
    const counts = new Map<number, number>();
    for (const line of readFileSync(this.#file, 'utf8').split('\n').filter(Boolean)) {
      const id = Number(line.split(' ')[0]);
      counts.set(id, (counts.get(id) ?? 0) + 1);
    }
    return counts;
  }
}

describe('hand-overs under load', () => {
  it('no call is lost and none is made twice, over many hand-overs', async () => {
    using directory = scratchDirectory();
    const path = directory.file('socket');
    const ledger = new Ledger(path, directory.file('ledger'));
    let present = ledger.start();
    await present.listening;
    await using pool = await connectPool({ path, size: 4 });
    await using connection = await connect({ path, reconnect: true });
    const clients = [pool.client(Count), connection.client(Count)];
    const total = rounds(100_000, 10_000);
    const overs = rounds(100, 10);
    let id = 0;
    let answered = 0;
    // The calls are spread over the hand-overs, and over the time of each.
    let over = 0;
    let since = performance.now();
    let usualMs = 150;
    const allowed = (): number =>
      (total / overs) * (over + Math.min(1, (performance.now() - since) / usualMs));
    const caller = async (at: number): Promise<void> => {
      while (id < total) {
        if (id >= allowed()) {
          await new Promise((resolve) => setTimeout(resolve, 1));
          continue;
        }
        id += 1;
        const mine = id;
        expect(await clients[at % 2]?.take(mine)).toBe(mine);
        answered += 1;
      }
    };
    const callers = Promise.all(Array.from({ length: 16 }, (_, at) => caller(at)));
    const epochs: number[] = [];
    const sums = { moved: 0, forced: 0, cutOff: 0, drained: 0 };
    for (; over < overs; over += 1) {
      since = performance.now();
      const [client] = clients;
      const releases = directory.file(`release-${over}`);
      const held = client?.hold(releases); // in flight while the listener drains
      const next = ledger.start();
      await next.listening;
      writeFileSync(releases, '');
      const result = await present.handedOver;
      await held;
      epochs.push(result.epoch);
      for (const name of Object.keys(sums) as (keyof typeof sums)[]) sums[name] += result[name];
      await present.exited;
      present = next;
      usualMs = (usualMs + performance.now() - since) / 2;
    }
    await callers;
    expect(answered).toBe(total);
    expect(epochs).toEqual(Array.from({ length: overs }, (_, at) => at + 1));
    expect(sums).toMatchObject({ forced: 0, cutOff: 0 });
    expect(sums.moved).toBeGreaterThanOrEqual(overs);
    expect(sums.drained).toBeGreaterThanOrEqual(overs);
    const handled = ledger.handled();
    expect(handled.size).toBe(total);
    expect([...handled.values()].filter((count) => count !== 1)).toEqual([]);
    present.child.kill('SIGKILL');
    await present.exited;
  });

  it('a listener that is killed half-way: calls settle truthfully, the next ones succeed', async () => {
    using directory = scratchDirectory();
    const path = directory.file('socket');
    const ledger = new Ledger(path, directory.file('ledger'));
    let present = ledger.start();
    await present.listening;
    await using connection = await connect({ path, reconnect: true });
    const client = connection.client(Count);
    let isOver = false;
    let id = 0;
    const ends = new Map<number, unknown>();
    const callers = Array.from({ length: 8 }, async () => {
      while (!isOver) {
        id += 1;
        const mine = id;
        await client.take(mine).then(
          () => ends.set(mine, undefined),
          ({ delivered }) => ends.set(mine, delivered),
        );
      }
    });
    for (let round = 0; round < 10; round += 1) {
      const next = ledger.start();
      // Killed at another moment of the hand-over each time.
      await new Promise((resolve) => setTimeout(resolve, 60 + round * 12));
      present.child.kill('SIGKILL');
      await present.exited;
      await next.listening;
      expect(await client.where(undefined, { timeoutMs: 600_000 })).toBe(round + 2);
      present = next;
    }
    isOver = true;
    await Promise.all(callers);
    const handled = ledger.handled();
    for (const [mine, end] of ends) {
      const count = handled.get(mine) ?? 0;
      if (end === undefined) expect(count, `call ${mine}`).toBe(1);
      else if (end === 'no') expect(count, `call ${mine}`).toBe(0);
      else expect(end).toBe('unknown');
      expect(count).toBeLessThanOrEqual(1);
    }
    present.child.kill('SIGKILL');
    await present.exited;
  });

  it('a successor that crashes or hangs leaves the listener as it was', async () => {
    using directory = scratchDirectory();
    const path = directory.file('socket');
    const ledger = new Ledger(path, directory.file('ledger'));
    await using first = ledger.start();
    await first.listening;
    await using connection = await connect({ path, reconnect: true });
    const client = connection.client(Count);
    await using crashing = ledger.start('crashes');
    await crashing.exited;
    expect(await client.where()).toBe(1);
    await using hanging = ledger.start('hangs');
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(await client.where()).toBe(1);
    hanging.child.kill('SIGKILL');
    await hanging.exited;
    await using last = ledger.start();
    expect(await first.handedOver).toMatchObject({ epoch: 1, forced: 0 });
    await last.listening;
    expect(await client.where()).toBe(4);
  });

  it('one client that stands still is cut off, and holds no other up', async () => {
    using directory = scratchDirectory();
    const path = directory.file('socket');
    const ledger = new Ledger(path, directory.file('ledger'));
    await using first = ledger.start('', 20_000);
    await first.listening;
    await using frozen = startProgram('frozen-client.mjs', [path]);
    await frozen.next();
    process.kill(frozen.pid, 'SIGSTOP');
    await using pool = await connectPool({ path, size: 4 });
    const client = pool.client(Count);
    await client.take(1);
    await using second = ledger.start();
    await second.listening;
    // The others have moved long before the deadline of the frozen one.
    await until(async () => (await client.where()) === 2);
    expect(await first.handedOver).toMatchObject({ moved: 4, forced: 1 });
    process.kill(frozen.pid, 'SIGCONT');
    expect(await frozen.next()).toEqual({ where: 2 });
  });
});
