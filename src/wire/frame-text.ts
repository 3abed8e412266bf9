// SPDX-License-Identifier: MIT
// Frames in words, for traces and inspections.
import {
  emptyHeader,
  FrameFlag,
  FrameType,
  type Header,
  noTimeout,
  ResetReason,
  readHeader,
} from './frame-header.ts';
import { callKindNames, namesOf } from './number-names.ts';

const typeNames = namesOf(FrameType);
const reasonNames = namesOf(ResetReason);
const windowNames = ['requests', 'answers', 'streams', 'notifications'];

/** A frame on one line, without its payload: `open 3.1 unary, 120 bytes, 500 ms left`. */
export function frameText(headerBytes: Uint8Array, payloadBytes: number): string {
  const header = emptyHeader();
  try {
    readHeader(headerBytes, header);
  } catch {
    return `an invalid frame of type ${headerBytes[0]}`;
  }
  const parts = [`${typeNames.get(header.type)}${idOf(header)}`, ...detailsOf(header)];
  if (payloadBytes > 0) parts.push(`payload ${payloadBytes}`);
  return parts.join(', ');
}

/** The name of a type of frames. */
export function frameTypeName(type: number): string {
  return typeNames.get(type) ?? `type ${type}`;
}

function idOf({ type, slot, generation, flags }: Header): string {
  if (type === FrameType.goaway || type === FrameType.clock) return '';
  if (type === FrameType.credit && generation === 0) return ` of ${windowNames[slot]}`;
  if (generation === 0) return ` ${slot}`;
  const by = (flags & FrameFlag.fromOpener) === 0 ? '' : ' by its opener';
  return ` ${slot}.${generation}${by}`;
}

function detailsOf(header: Header): string[] {
  const flags = flagsText(header.flags);
  switch (header.type) {
    case FrameType.open: {
      const time = header.timeoutMs === noTimeout ? [] : [`${header.timeoutMs} ms left`];
      return [`${callKindNames.get(header.kind)}, ${header.messageBytes} bytes`, ...time, ...flags];
    }
    case FrameType.message:
      return [`${header.messageBytes} bytes`, ...flags];
    case FrameType.end:
      return [`status ${header.status}`, ...flags];
    case FrameType.reset:
      return [`${reasonNames.get(header.reason)}`];
    case FrameType.credit:
      return [`${header.grantBytes} bytes`];
    default:
      return flags;
  }
}

function flagsText(flags: number): string[] {
  const names = [
    [FrameFlag.end, 'ends'],
    [FrameFlag.streamed, 'streamed'],
    [FrameFlag.beyond, 'beyond'],
  ] as const;
  return names.flatMap(([flag, name]) => ((flags & flag) === 0 ? [] : [name]));
}
