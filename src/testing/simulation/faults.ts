// SPDX-License-Identifier: MIT
// Faults of processes, machines and connections, as data: a list of them can be drawn from a seed,
// repeated and shortened.
import type { Connection } from './connection.ts';
import type { SimulatedProcess } from './process.ts';
import type { World } from './world.ts';

/** A fault that begins at an instant of virtual time, in milliseconds since the beginning. */
export type TimedFault =
  /** SIGKILL. */
  | { readonly kind: 'kill'; readonly process: string; readonly atMs: number }
  /** SIGSTOP, and SIGCONT `forMs` later. */
  | ({ readonly kind: 'stop' } & OfProcess)
  /** The event loop computes, and does nothing else. */
  | ({ readonly kind: 'block' } & OfProcess)
  /** The system reports an error of the socket of one end, while both processes live. */
  | {
      readonly kind: 'socket-error';
      readonly connection: number;
      readonly end: 'near' | 'far';
      readonly atMs: number;
    }
  /** The machine sleeps: all clocks go on, and nothing happens meanwhile. */
  | { readonly kind: 'sleep'; readonly atMs: number; readonly forMs: number }
  /** No memory for blocks. */
  | ({ readonly kind: 'no-memory' } & OfProcess)
  /** The kernel has no memory for doorbells. */
  | ({ readonly kind: 'no-bell' } & OfProcess)
  /** The kernel takes no bytes for the socket. */
  | ({ readonly kind: 'no-room' } & OfProcess);

/** A fault of one process that ends by itself. */
interface OfProcess {
  readonly process: string;
  readonly atMs: number;
  readonly forMs: number;
}

/** Any fault. */
export type Fault =
  | TimedFault
  /** SIGKILL at the moment at which the process would show something to others for this time. */
  | { readonly kind: 'kill-at-point'; readonly process: string; readonly point: number };

/** The name of a kind of faults. */
export type FaultKind = Fault['kind'];

/** The parts of a simulation that faults act on. */
export interface FaultTargets {
  readonly world: World;
  readonly processes: readonly SimulatedProcess[];
  readonly connections: readonly Connection[];
}

/** Plans a fault. `onFault` is called when it happens. */
export function planFault(
  targets: FaultTargets,
  fault: Fault,
  onFault: (fault: Fault) => void,
): void {
  const { world } = targets;
  if (fault.kind === 'kill-at-point') {
    const process = processOf(targets, fault.process);
    process.diesAtPoint = fault.point;
    process.whenDead(() => onFault(fault));
    return;
  }
  world.plan(fault.atMs, () => {
    onFault(fault);
    begin(targets, fault);
  });
}

function begin(targets: FaultTargets, fault: TimedFault): void {
  const { world } = targets;
  switch (fault.kind) {
    case 'sleep':
      world.trace('the machine', `sleeps for ${fault.forMs} ms`);
      return world.jump(fault.forMs);
    case 'socket-error': {
      const end = targets.connections[fault.connection]?.[fault.end];
      world.trace(end?.process.name ?? '', 'has an error of its socket');
      return end?.socket.fail();
    }
    case 'kill':
      return processOf(targets, fault.process).kill();
    case 'block':
      return processOf(targets, fault.process).block(fault.forMs);
    case 'stop': {
      const process = processOf(targets, fault.process);
      process.stop();
      world.plan(fault.forMs, () => process.resume());
      return;
    }
    default:
      setShortage(targets, fault, true);
      world.plan(fault.forMs, () => setShortage(targets, fault, false));
  }
}

type Shortage = Extract<Fault, { kind: 'no-memory' | 'no-bell' | 'no-room' }>;

function setShortage({ world, connections }: FaultTargets, fault: Shortage, begins: boolean): void {
  const { kind, process: name } = fault;
  world.trace(name, `${begins ? 'begins' : 'ends'}: ${kind}`);
  for (const { process, ring, socket } of connections.flatMap(({ near, far }) => [near, far])) {
    if (process.name !== name || process.isDead) continue;
    if (kind === 'no-room') socket.setFull(begins);
    else if (ring !== undefined && kind === 'no-memory') ring.isMemoryRefused = begins;
    else if (ring !== undefined) ring.refuseBell(begins);
  }
}

function processOf({ processes }: FaultTargets, name: string): SimulatedProcess {
  const found = processes.find((process) => process.name === name);
  if (found !== undefined) return found;
  const names = processes.map((process) => process.name).join(', ');
  throw new Error(`a fault names the process '${name}'; there are: ${names}`);
}
