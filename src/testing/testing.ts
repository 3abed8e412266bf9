// SPDX-License-Identifier: MIT
// The public names of `sidecall/testing`.
export type { PairOptions, PairSide, SessionPair } from './session-pair.ts';
export { createSessionPair } from './session-pair.ts';
export type { Fault, FaultKind, TimedFault } from './simulation/faults.ts';
export { SimulationError, simulate, simulateEveryDeath } from './simulation/simulate.ts';
export type {
  EveryDeathOptions,
  SimulatedConnectOptions,
  SimulatedEndOptions,
  SimulatedHelperHandle,
  SimulatedHelperOptions,
  SimulatedLane,
  SimulatedProcessHandle,
  SimulateOptions,
  Simulation,
  SimulationResult,
} from './simulation/simulation-types.ts';
