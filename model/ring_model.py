#!/usr/bin/env python3
"""Exhaustive model of sidecall's ring: cursors, epochs, doorbells and sleep, under weak stores.

Run:     python3 ring_model.py            default CI: under two minutes, 0.5 GiB, no dependencies
         python3 ring_model.py --long     larger two-way bounds: six to ten minutes, 3 GiB
         python3 ring_model.py --bug NAME one seeded bug, with the trace that leads to it
Exit:    0 when every correct configuration passes and every seeded bug is found where it must be.

What is modelled. Two processes, A and B, run the same program: drain, write, publish, announce
sleep, look once more, block. Each owns one memory (producer cursor, consumer cursor, two epochs,
`capacity` cells) that only it writes. Each process has a store buffer: with TSO stores leave it in
order (x86-64); with PSO plain stores leave in any order and a release store waits for all earlier
ones (the store side of AArch64). One sticky doorbell per process, shared by its two roles; the
event loop may consume it while the process is awake. A record is one cell. With `B sends 0` the
run is one-way; otherwise both processes produce and consume.

What it proves, for the bounds printed and for these store orders: no reachable state in which
nobody can move with work left (no lost wake-up, neither for data nor for space); no cell is read
before its payload is visible or after it was overwritten; cursors stay within their limits; at most
one doorbell per announced sleep. Every state is visited: within the bounds this is a proof, not a
sample.

What it does not prove: anything about loads that overtake loads (they stay in program order here,
so an acquire turned into a relaxed load would go unnoticed: TSan looks at that); larger bounds; byte offsets, wrap and padding (unit and fuzz tests); a peer that lies (fuzz
tests); the death of a process and liveness beyond "never stuck" (Promela model, kill sweep). It
checks this program and not native/ring/: when the algorithm changes, change it here too.
"""
import argparse
import sys
import time
from collections import deque, namedtuple

# Words of one process's memory. Only the owner stores to them, so a load never needs forwarding.
PRODUCER, CONSUMER, DATA_SLEEP_EPOCH, SPACE_SLEEP_EPOCH, CELLS = 0, 1, 2, 3, 4

# The private state of one process. `step` is its program counter; `seen` the peer's consumer cursor
# as last read; `answered_*` the last odd epochs of the peer that were rung for; `rung` counts the
# doorbells sent; `waits` is 1 while a write wants space; `late` is used by two seeded bugs only.
Process = namedtuple('Process', 'step written seen consumed data_epoch space_epoch '
                     'answered_data answered_space rung waits late')
AWAKE = Process('turn', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)

# name: (what is wrong, whether TSO hides it)
BUGS = {
    'publish-unordered': ('epoch loaded before the producer cursor is visible', False),
    'release-unordered': ('epoch loaded before the consumer cursor is visible', False),
    'announce-unordered': ('producer cursor loaded before the sleep is visible', False),
    'wait-unordered': ('consumer cursor loaded before the wait for space is visible', False),
    'look-then-announce': ('last look at the cursor comes before the announcement', False),
    'reader-blocks-awake': ("blocks with an even data epoch (an unref'd immediate)", False),
    'writer-blocks-awake': ('blocks for space with an even space epoch', False),
    'cursor-before-payload': ('producer cursor stored before the payload', False),
    'cursor-relaxed': ('producer cursor stored without release', True),
    'epoch-restored': ('epoch set back on waking instead of advanced', False),
    'bytes-cleared-late': ('doorbell bytes discarded after drain and new announcement', False),
    'bytes-swallowed': ('doorbell byte consumed while asleep, no drain scheduled', False),
    'one-role-served': ('doorbell serves reading only, the waiting write is not retried', False),
    'answer-forgotten': ('an epoch already answered is rung for again', False),
}

BOUNDS = [(1, 3, 0), (2, 4, 0), (3, 5, 0), (1, 2, 1), (1, 2, 2)]  # capacity, A sends, B sends
LONG_BOUNDS = [(1, 3, 2), (2, 3, 3)]


class Violation(Exception):
    """A safety property does not hold."""


class Model:
    """All that can happen next. A state is (memories, buffers, processes, bells), pairs of A, B."""

    def __init__(self, capacity, a_sends, b_sends, order, bug=None):
        self.capacity, self.sends, self.order, self.bug = capacity, (a_sends, b_sends), order, bug
        memory = (0, 0, 0, 0) + (-1,) * capacity
        self.start = ((memory, memory), ((), ()), (AWAKE, AWAKE), (0, 0))

    def successors(self, state):
        return [following
                for me in (0, 1)
                for following in Step(self, state, me).take() + self.visible_stores(state, me)]

    def is_finished(self, state):
        return all(process.step == 'done' for process in state[2])

    def visible_stores(self, state, me):
        """Each way in which one buffered store of `me` can reach memory next."""
        memories, buffers, processes, bells = state
        buffer, following = buffers[me], []
        for k, (word, value, is_release) in enumerate(buffer):
            if k > 0:
                if self.order == 'TSO':
                    break
                if is_release or any(earlier[0] == word for earlier in buffer[:k]):
                    continue
            memory = memories[me][:word] + (value,) + memories[me][word + 1:]
            following.append((put(memories, me, memory),
                              put(buffers, me, buffer[:k] + buffer[k + 1:]), processes, bells))
        return following


class Step:
    """One instruction of one process: the protocol of native/ring/."""

    def __init__(self, model, state, me):
        self.model, self.state, self.me, self.bug = model, state, me, model.bug
        self.p, self.peer = state[2][me], state[0][1 - me]
        self.is_visible = not state[1][me]  # all my stores have reached memory
        self.is_rung = state[3][me]

    def take(self):
        for part in (self.reading, self.writing, self.ringing, self.sleeping):
            following = part(self.p, self.p.step)
            if following is not None:
                return following
        return []

    def to(self, step, stores=(), bells=None, **changes):
        memories, buffers, processes, old_bells = self.state
        if stores:
            buffers = put(buffers, self.me, buffers[self.me] + stores)
        processes = put(processes, self.me, self.p._replace(step=step, **changes))
        return (memories, buffers, processes, old_bells if bells is None else bells)

    def my_bell_cleared(self):
        return put(self.state[3], self.me, 0)

    def reading(self, p, step):
        if step == 'turn':  # Drain(): one load of the producer cursor
            produced = self.peer[PRODUCER]
            if not 0 <= produced - p.consumed <= self.model.capacity:
                raise Violation('producer cursor out of range')
            goes = 'read' if produced > p.consumed else 'write'
            if goes == 'write' and self.bug == 'one-role-served' and p.waits:
                goes = 'announce'
            following = [self.to(goes)]
            if self.is_rung and not p.late:  # the event loop may read the byte while we are awake
                following.append(self.to('turn', bells=self.my_bell_cleared()))
            return following
        if step == 'read':
            if self.peer[CELLS + p.consumed % self.model.capacity] != p.consumed:
                raise Violation('payload is not that of this record')
            return [self.to('release', consumed=p.consumed + 1)]
        if step == 'release':  # Release(): consumer cursor first, the peer's space epoch second
            return [self.to('released', ((CONSUMER, p.consumed, True),))]
        if step == 'released' and (self.is_visible or self.bug == 'release-unordered'):
            epoch = self.peer[SPACE_SLEEP_EPOCH]
            return [self.to('ring', answered_space=epoch)
                    if self.wants_ring(epoch, p.answered_space) else self.to('turn')]
        return None

    def writing(self, p, step):
        if step == 'write':  # Claim()
            if p.written == self.model.sends[self.me]:
                return [self.to('announce')]
            if p.written - p.seen < self.model.capacity:
                return [self.to('store')]
            consumed = self.peer[CONSUMER]
            if not p.seen <= consumed <= p.written:
                raise Violation('consumer cursor out of range')
            return [self.to('store', seen=consumed) if p.written - consumed < self.model.capacity
                    else self.to('announce', seen=consumed, waits=1)]
        if step in ('store', 'publish'):  # Commit(), then Publish()
            payload = (CELLS + p.written % self.model.capacity, p.written, False)
            cursor = (PRODUCER, p.written + 1, self.bug != 'cursor-relaxed')
            pair = (payload, cursor) if self.bug != 'cursor-before-payload' else (cursor, payload)
            if step == 'store':
                return [self.to('publish', pair[:1])]
            return [self.to('published', pair[1:], written=p.written + 1)]
        if step == 'published' and (self.is_visible or self.bug == 'publish-unordered'):
            epoch = self.peer[DATA_SLEEP_EPOCH]
            return [self.to('ring', answered_data=epoch)
                    if self.wants_ring(epoch, p.answered_data) else self.to('turn')]
        return None

    def wants_ring(self, epoch, answered):
        return epoch % 2 == 1 and (epoch != answered or self.bug == 'answer-forgotten')

    def ringing(self, p, step):
        if step != 'ring':
            return None
        other = self.state[2][1 - self.me]
        announced = (other.data_epoch + 1) // 2 + (other.space_epoch + 1) // 2
        if p.rung == announced and self.bug in (None, 'answer-forgotten'):
            raise Violation('more doorbells than announced sleeps')
        return [self.to('turn', bells=put(self.state[3], 1 - self.me, 1), rung=p.rung + 1)]

    def sleeping(self, p, step):
        if step == 'announce':
            return [self.announce(p)]
        if step == 'look-for-data' and (self.is_visible or self.bug == 'announce-unordered'):
            if self.peer[PRODUCER] != p.consumed:
                return [self.wake(p)]
            if not p.waits or p.late:
                return [self.to('asleep')]
            if self.bug == 'wait-unordered':
                return [self.to('look-for-space', ((SPACE_SLEEP_EPOCH, p.space_epoch + 1, True),),
                                space_epoch=p.space_epoch + 1)]
            return [self.to('look-for-space')]
        if step == 'look-for-space' and (self.is_visible or self.bug == 'wait-unordered'):
            has_space = p.written - self.peer[CONSUMER] < self.model.capacity
            return [self.wake(p) if has_space else self.to('asleep')]
        if step == 'asleep' and p.late and self.bug == 'bytes-cleared-late' and self.is_visible:
            return [self.to('asleep', bells=self.my_bell_cleared(), late=0)]
        if step == 'asleep' and self.is_rung:
            return [self.doorbell(p)]
        return None

    def announce(self, p):
        """PrepareToSleep(): my epochs first, the peer's cursors second."""
        if p.written == self.model.sends[self.me] and p.consumed == self.model.sends[1 - self.me]:
            return self.to('done')
        epochs = {'data_epoch': p.data_epoch + (self.bug != 'reader-blocks-awake')}
        stores = ((DATA_SLEEP_EPOCH, epochs['data_epoch'], True),)
        if self.bug == 'look-then-announce':
            return self.to('asleep', stores, **epochs)
        is_skipped = self.bug in ('writer-blocks-awake', 'wait-unordered') or p.late
        if p.waits and not is_skipped:
            epochs['space_epoch'] = p.space_epoch + 1
            stores += ((SPACE_SLEEP_EPOCH, epochs['space_epoch'], True),)
        return self.to('look-for-data', stores, **epochs)

    def wake(self, p, bells=None, late=0):
        """Wake(): every odd epoch moves on to the next even number, and the turn starts over."""
        stores, epochs = (), {}
        by = -1 if self.bug == 'epoch-restored' else 1
        if p.data_epoch % 2 == 1:
            epochs['data_epoch'] = p.data_epoch + by
            stores += ((DATA_SLEEP_EPOCH, epochs['data_epoch'], False),)
        if p.space_epoch % 2 == 1:
            epochs['space_epoch'] = p.space_epoch + by
            stores += ((SPACE_SLEEP_EPOCH, epochs['space_epoch'], False),)
        return self.to('turn', stores, bells, waits=0, late=late, **epochs)

    def doorbell(self, p):
        """The event loop reads the byte while the process is asleep."""
        if self.bug == 'bytes-swallowed':
            return self.to('asleep', bells=self.my_bell_cleared())
        if self.bug == 'bytes-cleared-late':
            return self.wake(p, late=1)
        if self.bug == 'one-role-served' and p.waits:
            return self.to('turn', ((DATA_SLEEP_EPOCH, p.data_epoch + 1, False),),
                           self.my_bell_cleared(), data_epoch=p.data_epoch + 1, late=1)
        return self.wake(p, self.my_bell_cleared())


def put(pair, which, value):
    return (value, pair[1]) if which == 0 else (pair[0], value)


def explore(model):
    """Visits every reachable state. Returns what went wrong or None, the states, the last state."""
    came_from = {model.start: None}
    waiting = deque([model.start])
    while waiting:
        state = waiting.popleft()
        try:
            following = model.successors(state)
            wrong = None if following or model.is_finished(state) else 'lost wake-up'
        except Violation as violation:
            wrong = str(violation)
        if wrong:
            return wrong, came_from, state
        for next_state in following:
            if next_state not in came_from:
                came_from[next_state] = state
                waiting.append(next_state)
    return None, came_from, None


def print_trace(came_from, state):
    lines = []
    while state is not None:
        memories, buffers, processes, bells = state
        lines.append('   '.join(
            f'{"AB"[me]}: {processes[me].step:<14} memory {memories[me]} '
            f'buffered {len(buffers[me])} bell {bells[me]}' for me in (0, 1)))
        state = came_from[state]
    print(*reversed(lines), sep='\n')


def check_correct(bounds):
    is_good, total = True, 0
    for capacity, a_sends, b_sends in bounds:
        for order in ('TSO', 'PSO'):
            wrong, states, _ = explore(Model(capacity, a_sends, b_sends, order))
            print(f'correct  capacity {capacity}  A sends {a_sends}  B sends {b_sends}  {order}: '
                  f'{wrong or "ok"}, {len(states):,} states', flush=True)
            is_good, total = is_good and wrong is None, total + len(states)
    print(f'correct  {total:,} states in all')
    return is_good


def check_bugs(names, wants_trace=False):
    """A check that cannot fail proves nothing: each seeded bug has to be found."""
    is_good, found = True, 0
    for name in names:
        what, hidden_by_tso = BUGS[name]
        results = []
        for order in ('TSO', 'PSO'):
            wrong, states, last = explore(Model(2, 4, 0, order, name))
            results.append(f'{order}: {wrong or "not seen"}')
            is_good = is_good and (wrong is None) == (hidden_by_tso and order == 'TSO')
            found += order == 'PSO' and wrong is not None
            if wants_trace and wrong:
                print_trace(states, last)
        print(f'seeded   {name:<21} {"; ".join(results)}  ({what})', flush=True)
    print(f'seeded   {found} of {len(names)} found')
    return is_good


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument('--long', action='store_true', help='larger two-way bounds')
    arguments.add_argument('--bug', choices=sorted(BUGS), help='one seeded bug, with its trace')
    chosen = arguments.parse_args()
    started = time.monotonic()
    if chosen.bug:
        is_good = check_bugs([chosen.bug], wants_trace=True)
    else:
        is_good = check_correct(BOUNDS + (LONG_BOUNDS if chosen.long else []))
        is_good = check_bugs(BUGS) and is_good
    print(f'{"as expected" if is_good else "NOT AS EXPECTED"}, {time.monotonic() - started:.0f} s')
    return 0 if is_good else 1


if __name__ == '__main__':
    sys.exit(main())
