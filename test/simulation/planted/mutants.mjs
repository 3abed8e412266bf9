// Small changes of flow control, closing, retry and the ring, each of which breaks a promise.
const rpc = 'src/rpc';

export const mutants = [
  // Flow control.
  {
    name: 'a message costs its sender no overhead',
    file: `${rpc}/streams/writer-window.ts`,
    from: '    const charge = chargeOf(messageBytes);\n    this.#own.spend(charge);',
    to: '    const charge = messageBytes;\n    this.#own.spend(charge);',
  },
  {
    name: 'a stream sends without credit of its own',
    file: `${rpc}/streams/writer-window.ts`,
    from: '    return this.#own.hasCredit;',
    to: '    return true;',
  },
  {
    name: 'a stream sends without credit of the session',
    file: `${rpc}/streams/writer-window.ts`,
    from: '    return this.#all.hasCredit;',
    to: '    return true;',
  },
  {
    name: 'a second message goes beyond the window of all streams',
    file: `${rpc}/streams/writer-window.ts`,
    from: ' && this.#granted >= this.#beyondUntil;',
    to: ';',
  },
  {
    name: 'credit comes back only once a window is used up',
    file: `${rpc}/sending/credit.ts`,
    from: 'if (this.#owed < this.#windowBytes / 4 && this.#owed < left) return 0;',
    to: 'if (this.#owed < this.#windowBytes + 1000) return 0;',
  },
  {
    name: 'credit that is given back is counted twice',
    file: `${rpc}/sending/credit.ts`,
    from: '    this.#owed -= batch;\n',
    to: '',
  },
  {
    name: 'the first grant is not noted',
    file: `${rpc}/sending/credit.ts`,
    from: 'this.#granted = this.#windowBytes;',
    to: 'this.#granted += 0;',
  },
  {
    name: 'a writer is not woken by its credit',
    file: `${rpc}/streams/stream-writer.ts`,
    from: '    this.#window.grant(bytes);\n    this.resume();',
    to: '    this.#window.grant(bytes);',
  },
  {
    name: 'writers that wait for the session are not woken',
    file: `${rpc}/session/session-core.ts`,
    from: 'else if (window === Window.streams) this.shared.resumeBlocked();',
    to: 'else if (window === Window.streams) return;',
  },
  {
    name: 'answers that wait are not woken by credit',
    file: `${rpc}/session/session-core.ts`,
    from: 'if (window === Window.answers) this.callee.resume();',
    to: 'if (window === Window.answers) return;',
  },
  {
    name: 'a long message leaves its queue before its last piece',
    file: `${rpc}/sending/outgoing-messages.ts`,
    from: 'const isWhole = end === message.bytes.length;',
    to: 'const isWhole = end + 1000 >= message.bytes.length;',
  },
  {
    name: 'a frame that found no room is not sent again',
    file: `${rpc}/sending/send-queue.ts`,
    from: '        } else this.#isFull = true;\n        continue;',
    to: '        } else {\n          this.#isFull = true;\n          this.#control.shift();\n        }\n        continue;',
  },
  {
    name: 'short messages of a stream overtake its long one',
    file: `${rpc}/sending/send-queue.ts`,
    from: 'const isOvertaking = (stream.line?.length ?? 0) > 0;',
    to: 'const isOvertaking = (stream.line?.length ?? 0) > 1;',
  },
  {
    name: 'handlers that have settled are not counted',
    file: `${rpc}/serving/admission.ts`,
    from: '    this.#running -= 1;',
    to: '    this.#running -= load === undefined ? 0 : 1;',
  },
  // Slots, cancels and ends.
  {
    name: 'a slot is used again in the same generation',
    file: `${rpc}/streams/stream-table.ts`,
    from: 'if (!wasSent) this.#generations[at] =',
    to: 'this.#generations[at] =',
  },
  {
    name: 'a call that was cancelled is answered, too',
    file: `${rpc}/serving/incoming-call.ts`,
    from: "    if (this.state === 'open') return true;\n    this.memory?.settleLease();",
    to: "    if (this.state === 'open' || this.slot % 4 === 1) return true;\n    this.memory?.settleLease();",
  },
  {
    name: 'a cancel is answered before its handler has settled, and again',
    file: `${rpc}/serving/incoming-call.ts`,
    from: '    if (this.isRunning) this.parts.owedReset = reason;\n    else this.#sendReset(reason);',
    to: '    this.#sendReset(reason);',
  },
  {
    name: 'a notification is lost where its session closes',
    file: `${rpc}/calling/caller.ts`,
    from: 'if (call.isWritten || !call.isOpen || isNotification) continue;',
    to: 'if (call.isWritten || !call.isOpen) continue;',
  },
  {
    name: 'a session closes while messages wait to leave',
    file: `${rpc}/session/session-core.ts`,
    from: 'return isIdle && this.#goaway.isAnswered && this.#sendQueue.isEmpty;',
    to: 'return isIdle && this.#goaway.isAnswered;',
  },
  {
    name: 'a session closes while handlers of the peer run',
    file: `${rpc}/session/session-core.ts`,
    from: 'const isIdle = this.caller.pending === 0 && this.callee.pending === 0;',
    to: 'const isIdle = this.caller.pending === 0;',
  },
  {
    name: 'calls that were sent are told as not delivered when the session ends',
    file: `${rpc}/calling/caller.ts`,
    from: "const delivered = call.isWritten && wasTaken ? 'unknown' : 'no';",
    to: "const delivered = wasTaken && consumedPosition !== undefined ? 'unknown' : 'no';",
  },
  {
    name: 'the end of a channel is not answered',
    file: `${rpc}/streams/channel-halves.ts`,
    from: 'answerEnd(this.#shared, this.#stream, this.#parts.flags);',
    to: '',
  },
  {
    name: 'each wait for liveness sends a ping of its own',
    file: `${rpc}/session/pings.ts`,
    from: 'this.#answeredAt < wireLimits.pingIntervalMs;',
    to: 'this.#answeredAt < 0;',
  },
  {
    name: 'a handler that looks for its cancel loses what is behind its frame',
    file: 'src/shm/early-cancels.ts',
    from: 'if (saved !== undefined) slab.set(saved);',
    to: '',
  },
  {
    name: 'a close does not wait for the answer to its goaway',
    file: `${rpc}/session/session-core.ts`,
    from: 'return isIdle && this.#goaway.isAnswered && this.#sendQueue.isEmpty;',
    to: 'return isIdle && this.#sendQueue.isEmpty;',
  },
  // Retry.
  {
    name: 'a call that a handler may have seen is repeated',
    file: `${rpc}/calling/retry.ts`,
    from: "return delivered === 'no' || (delivered === 'unknown' && this.#callable.isIdempotent);",
    to: "return delivered === 'no' || delivered === 'unknown' || delivered === 'yes';",
    needs: 'restarts',
  },
  {
    name: 'calls are repeated without end',
    file: `${rpc}/calling/retry.ts`,
    from: 'if (!hasBudget || this.#failures >= attempts || !this.#isSafe(error)) return false;',
    to: 'if (!this.#isSafe(error)) return false;',
    needs: 'restarts',
  },
  // The socket lane and the ring.
  {
    name: 'a frame that was read in pieces loses a byte',
    file: 'src/wire/frame-decoder.ts',
    from: 'this.#payloadFilled += count;',
    to: 'this.#payloadFilled += count > 900 ? count - 1 : count;',
  },
  {
    name: 'what waits behind a turn is handed out twice',
    file: 'src/uds/socket-transport.ts',
    from: 'this.#backlog[0] = chunk.subarray(taken);',
    to: 'this.#backlog[0] = chunk;',
  },
  {
    name: 'a ring that was refused is not looked at again',
    file: 'src/shm/ring-transport.ts',
    from: '      this.#isRefusing = true;\n      this.#wake();',
    to: '      this.#isRefusing = false;',
  },
  {
    name: 'doorbells are not answered by a look',
    file: 'src/shm/ring-transport.ts',
    from: 'if (!isAsleep) this.#loop.poller.activate(this);',
    to: 'if (isAsleep) this.#loop.poller.activate(this);',
  },
  {
    name: 'a ring that may not sleep is not served any more',
    file: 'src/loop/poller.ts',
    from: 'if (ring.rest(now)) this.deactivate(ring);',
    to: 'ring.rest(now);\n        this.deactivate(ring);',
  },
  {
    name: 'frames that were written are not published',
    file: 'src/shm/ring-transport.ts',
    from: '    this.#isPublishQueued = true;\n    this.#loop.clock.nextTick(publishLater, this);',
    to: '    this.#isPublishQueued = true;',
  },
  {
    name: 'a block is lent although it was not sent',
    file: 'src/shm/ring-transport.ts',
    from: 'if (written === RingResult.written) (block as RingBlock).onLent();',
    to: '(block as RingBlock).onLent();',
  },
  // Paths at which processes follow each other.
  {
    name: 'a listener does not go on where its successor fails',
    file: 'src/rendezvous/hand-over.ts',
    from: '      if (!this.#isGiven) this.#path.resume();',
    to: '',
  },
  {
    name: 'a successor goes on without the lock',
    file: 'src/rendezvous/take-over.ts',
    from: 'if (!(await lockWithin(clock, listener, tuning.handOverLockMs))) throw lostTo(error);',
    to: '',
  },
  {
    name: 'a connection is not made again for the second time',
    file: 'src/rendezvous/reconnector.ts',
    from: '    this.#follow(session);\n  }\n\n  #giveUp',
    to: '    this.target.set(session);\n  }\n\n  #giveUp',
  },
  {
    name: 'time in which the machine slept counts as time without a session',
    file: 'src/rendezvous/reconnector.ts',
    from: '      since += beyond(tuning.lateTimerMs, triesAt - pausesAt - pauseMs);\n',
    to: '',
  },
  {
    name: 'an idle shared helper does not end',
    file: 'src/shared/idle-end.ts',
    from: 'if (isUsed) usedAt',
    to: 'usedAt',
  },
  {
    name: 'an older version replaces a newer one',
    file: 'src/shared/shared-finder.ts',
    from: 'order < 0 ? onOlder',
    to: 'order > 0 ? onOlder',
  },
];
