// SPDX-License-Identifier: MIT
// An event loop as transports see it: its clock, the poller of its rings, and the time that its
// sessions share.
import { type Clock, systemClock } from '../base/clock.ts';
import { Poller } from './poller.ts';
import { TurnBudget } from './turn-budget.ts';

export class EventLoop {
  readonly clock: Clock;
  readonly budget: TurnBudget;
  readonly poller: Poller;

  constructor(clock: Clock) {
    this.clock = clock;
    this.budget = new TurnBudget(clock);
    this.poller = new Poller(clock, this.budget);
  }
}

/** The event loop of this thread. */
export const systemLoop = new EventLoop(systemClock);
