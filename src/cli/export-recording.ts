// SPDX-License-Identifier: MIT
// A recording for other programs: JSON lines, and pcapng for Wireshark (tools/wireshark/).
import { Buffer } from 'node:buffer';
import { printableJson } from '../base/printable.ts';
import { CallKind, type CallKindName } from '../wire/frame-header.ts';
import { RecordEvent } from '../wire/recorder-layout.ts';
import type { RecordedEvent, Recording, RunningHandler } from '../wire/recording.ts';

/** A line for the process, then one for each handler that ran, then one for each event. */
export function* jsonLines(recording: Recording): Generator<string> {
  const { running, events, ...head } = recording;
  const lines = [
    { what: 'process', ...head },
    ...running.map((handler) => ({ what: 'running', ...handler })),
    ...events.map(({ event, ...rest }) => ({ what: event, ...rest })),
  ];
  for (const line of lines) yield printableJson(JSON.stringify(line));
}

/** Types of blocks, and of options, by the draft of pcapng (draft-ietf-opsawg-pcapng). */
const Block = { section: 0x0a0d_0d0a, interface: 1, packet: 6 } as const;
const Option = { end: 0, comment: 1, flags: 2 } as const;
const byteOrder = 0x1a2b_3c4d;
/** Link types that users may give a meaning of their own begin here: USER0. */
const linkType = 147;
const snapMaxBytes = 65_535;
/** The version of the pseudo header of a packet, which `tools/wireshark/sidecall.lua` draws. */
const packetVersion = 1;
/** The event of a packet for a handler that ran at the end, beside those of a recording. */
const running = 5;
const inbound = 1;
const outbound = 2;

/** The events as packets of the link type USER0, and behind them the handlers that ran. */
export function pcapng(recording: Recording): Buffer {
  const comment = `process ${recording.pid}; ${recording.endText || 'it runs'}`;
  const section = Buffer.alloc(16);
  section.writeUInt32LE(byteOrder, 0);
  section.writeUInt16LE(1, 4); // version 1.0
  section.writeBigInt64LE(-1n, 8); // of unknown length
  const device = Buffer.alloc(8);
  device.writeUInt16LE(linkType, 0);
  device.writeUInt32LE(snapMaxBytes, 4);
  const { events, copiedAtMs } = recording;
  return Buffer.concat([
    block(Block.section, section, [[Option.comment, Buffer.from(comment)]]),
    block(Block.interface, device, []),
    ...events.map((event) => packet(packetOf(event), event.atMs, flagsOf(event))),
    ...recording.running.map((handler) => packet(packetOfRunning(handler), copiedAtMs, inbound)),
  ]);
}

function block(
  type: number,
  body: Buffer,
  options: readonly (readonly [number, Buffer])[],
): Buffer {
  const parts = [padded(body)];
  for (const [code, value] of options) {
    const head = Buffer.alloc(4);
    head.writeUInt16LE(code, 0);
    head.writeUInt16LE(value.length, 2);
    parts.push(head, padded(value));
  }
  if (options.length > 0) parts.push(Buffer.alloc(4, Option.end));
  const whole = Buffer.concat(parts);
  const head = Buffer.alloc(8);
  const tail = Buffer.alloc(4);
  head.writeUInt32LE(type, 0);
  head.writeUInt32LE(whole.length + 12, 4);
  tail.writeUInt32LE(whole.length + 12, 0);
  return Buffer.concat([head, whole, tail]);
}

/** To a multiple of four bytes. */
function padded(bytes: Buffer): Buffer {
  return Buffer.concat([bytes, Buffer.alloc((4 - (bytes.length % 4)) % 4)]);
}

function packet(data: Buffer, atMs: number, flags: number): Buffer {
  const head = Buffer.alloc(20);
  const micros = BigInt(Math.max(Math.round(atMs * 1_000), 0));
  head.writeUInt32LE(Number(micros >> 32n), 4);
  head.writeUInt32LE(Number(micros & 0xffff_ffffn), 8);
  head.writeUInt32LE(data.length, 12);
  head.writeUInt32LE(data.length, 16);
  const direction = Buffer.alloc(4);
  direction.writeUInt32LE(flags, 0);
  return block(Block.packet, Buffer.concat([head, padded(data)]), [[Option.flags, direction]]);
}

function flagsOf({ event }: RecordedEvent): number {
  if (event === 'sent') return outbound;
  return event === 'received' ? inbound : 0;
}

function packetOf(event: RecordedEvent): Buffer {
  const [type, flags, detail] = event.header;
  const { slot, generation, payloadBytes, value = 0, session, method = '' } = event;
  const head = { event: RecordEvent[event.event], session, type, flags, detail, slot, generation };
  return packetBytes({ ...head, payloadBytes, value, method });
}

function packetOfRunning({ session, id, method = '', kind, runningMs }: RunningHandler): Buffer {
  const [slot, generation] = id.split('.').map(Number) as [number, number];
  const detail = CallKind[kind as CallKindName] ?? 0;
  const head = { event: running, session, type: 0, flags: 0, detail, slot, generation };
  const value = Math.min(Math.round(runningMs), 0xffff_ffff);
  return packetBytes({ ...head, payloadBytes: 0, value, method });
}

interface PacketFields {
  readonly event: number;
  readonly session: number;
  readonly type: number;
  readonly flags: number;
  readonly detail: number;
  readonly slot: number;
  readonly generation: number;
  readonly payloadBytes: number;
  readonly value: number;
  readonly method: string;
}

function packetBytes(fields: PacketFields): Buffer {
  const name = Buffer.from(fields.method);
  const head = Buffer.alloc(28);
  head[0] = packetVersion;
  head[1] = fields.event;
  head.writeUInt16LE(name.length, 2);
  head.writeUInt32LE(fields.session, 4);
  head[8] = fields.type;
  head[9] = fields.flags;
  head.writeUInt16LE(fields.detail, 10);
  head.writeUInt32LE(fields.slot, 12);
  head.writeUInt32LE(fields.generation, 16);
  head.writeUInt32LE(fields.payloadBytes, 20);
  head.writeUInt32LE(fields.value, 24);
  return Buffer.concat([head, name]);
}
