// Streams that are filled and not read: their memory while they wait, and after they were read.
import { describe, expect, it } from 'vitest';
import { connect } from '../../src/rendezvous/connect.ts';
import { bytes } from '../../src/rpc/contract/codec.ts';
import { clientStream, service } from '../../src/rpc/contract/service.ts';
import type { Session } from '../../src/rpc/session/session.ts';
import { until } from '../support/contract.ts';
import { type RunningProgram, startProgram } from '../support/programs.ts';

const Sink = service('Sink', { put: clientStream({ request: bytes, response: bytes }) });
const streams = 64;
const windowBytes = 256 * 1024;
/** Of a message, beside its bytes. */
const overheadBytes = 64;

interface Stock {
  readonly usedMiB: number;
  readonly residentMiB: number;
  readonly sessions: number;
  readonly streams: number;
}

async function report(reader: RunningProgram): Promise<Stock> {
  reader.tell('report');
  return (await reader.next()) as unknown as Stock;
}

/** Fills the windows of 64 streams with messages of so many bytes. */
async function fill(session: Session, messageBytes: number): Promise<void> {
  const messages = Math.floor(windowBytes / (messageBytes + overheadBytes));
  const sent: Promise<void>[] = [];
  for (let stream = 0; stream < streams; stream += 1) {
    const call = session.client(Sink).put();
    const send = async (): Promise<void> => {
      for (let count = 0; count < messages; count += 1)
        await call.send(new Uint8Array(messageBytes));
    };
    sent.push(send());
  }
  await Promise.all(sent);
}

async function leave(reader: RunningProgram, sessions: readonly Session[]): Promise<void> {
  await Promise.all(sessions.map((session) => session.close({ deadlineMs: 0 })));
  await until(async () => (await report(reader)).sessions === 0);
  reader.tell('read'); // what waits for somebody who reads no more is garbage
}

describe('streams that nobody reads', () => {
  it.each(['ring', 'socket'])(
    'cost no more than their window, filled a byte at a time over the %s',
    async (lane) => {
      await using reader = startProgram('unread.mjs', [lane]);
      const { path } = (await reader.next()) as { path: string };
      const session = await connect({ path });
      await until(async () => (await report(reader)).sessions === 1);
      const before = await report(reader);
      await fill(session, 1);
      await until(async () => (await report(reader)).streams === streams);
      const after = await report(reader);
      const costMiB = after.usedMiB - before.usedMiB;
      console.log(`258,000 messages of a byte over the ${lane}: ${costMiB.toFixed(1)} MiB of 16`);
      expect(costMiB).toBeLessThan((streams * windowBytes) / 2 ** 20);
      await leave(reader, [session]);
      reader.tell('exit');
      await reader.exited;
    },
  );

  it.each([
    { lane: 'ring', messageBytes: 2_000 },
    { lane: 'ring', messageBytes: 60_000 },
    { lane: 'socket', messageBytes: 60_000 },
  ])(
    'leave no more behind than a busy process keeps: $messageBytes bytes, $lane',
    async ({ lane, messageBytes }) => {
      await using reader = startProgram('unread.mjs', [lane]);
      const { path } = (await reader.next()) as { path: string };
      const { residentMiB } = await report(reader);
      const sessions: Session[] = [];
      for (let at = 0; at < 16; at += 1) sessions.push(await connect({ path }));
      await Promise.all(sessions.map((session) => fill(session, messageBytes)));
      await until(async () => (await report(reader)).streams === 16 * streams);
      const full = await report(reader);
      expect(full.residentMiB).toBeGreaterThan(residentMiB + 128);
      await leave(reader, sessions);
      // Of more than 320: Node 20 keeps 54 of its young generation and ballast, 22 to 26 up to 94.
      const keptMiB = Number(process.versions.modules) > 115 ? 112 : 64;
      await until(async () => (await report(reader)).residentMiB <= residentMiB + keptMiB);
      const left = await report(reader);
      console.log(
        `${lane}, ${messageBytes} bytes: ${full.residentMiB.toFixed(0)} MiB, then ${left.residentMiB.toFixed(0)}`,
      );
      reader.tell('exit');
      await reader.exited;
    },
  );
});
