/*
 * The hand-over of a listening socket, for Spin: an old process and its successor, either of which may die at any
 * step, and whose call may break at any step. Claims: while the call lasts never both accept connections; and
 * when all is done the path has exactly one listener, which has the lock, unless every process that could be it is dead.
 *
 * The lock is the one of the path (`src/uds/file-lock.ts`): the kernel gives it up with its holder. The two times
 * of the protocol (`handOverStepMs`, `handOverLockMs`) are longer than any step, so that a try for the
 * lock fails only when the old process has settled with it.
 *
 * -DBUG=n plants one: 1 the old process gives the lock up with `yours`, 2 the successor accepts before `yours`, 3 the
 * old process does not go on when the call breaks, 4 the successor does not try the lock when the call breaks,
 * 5 the successor goes on without the lock when the call breaks, 6 the old process keeps accepting,
 * 7 the old process keeps the lock, 8 the successor never looks at the lock.
 */
#ifndef BUG
#define BUG 0
#endif
#ifndef DEATHS
#define DEATHS 2
#endif

#define OLD 0
#define NEW 1
#define NONE 2

mtype = { ready, yours, accepting, over };
chan toOld = [2] of { mtype };
chan toNew = [2] of { mtype };
bool broken;       /* the call is over before its last step */
byte lock = OLD;
bool accepts[2];
bool dead[2];
bool settled[2];   /* it takes no further step of the protocol */
byte deaths;

/* A process may end between any two steps; the kernel closes all that it has. */
#define STEP if \
  :: deaths < DEATHS -> atomic { deaths++; dead[me] = true; accepts[me] = false; broken = true; \
       if :: lock == me -> lock = NONE :: else fi; settled[me] = true; goto died } \
  :: true fi

proctype Old() {
  byte me = OLD;
  accepts[me] = true;
  STEP;
  if
  :: toOld ? ready
  :: broken -> goto goesOn
  fi;
  STEP;
  accepts[me] = false;
  STEP;
#if BUG == 1
  lock = NONE;
#endif
  toNew ! yours;
  STEP;
  if :: accepts[me] = true :: true fi; /* the pause has an end */
  STEP;
  if
  :: toOld ? accepting
  :: broken && empty(toOld) -> goto goesOn
  :: atomic { !broken && empty(toOld) -> broken = true }; goto goesOn /* its time is over */
  fi;
  STEP;
#if BUG != 6
  accepts[me] = false;
#endif
#if BUG != 7
  if :: lock == me -> lock = NONE :: else fi;
#endif
  STEP;
  toNew ! over;
  settled[me] = true;
  goto died;
goesOn:
  STEP;
#if BUG != 3
  accepts[me] = true;
#endif
  settled[me] = true;
died:
  skip
}

proctype New() {
  byte me = NEW;
  STEP;
#if BUG == 2
  accepts[me] = true;
#endif
  toOld ! ready;
  STEP;
  if
  :: toNew ? yours
  :: broken && empty(toNew) -> goto isBroken
  fi;
  STEP;
  if
  :: broken -> goto isBroken
  :: atomic { !broken -> toOld ! accepting }
  fi;
  STEP;
  if
  :: toNew ? over
  :: broken && empty(toNew) -> goto isBroken
  fi;
  STEP;
  accepts[me] = true;
  STEP;
#if BUG == 8
  goto done;
#endif
isBroken:
#if BUG == 4
  if :: broken -> goto givesUp :: else fi;
#endif
#if BUG == 5
  if :: broken -> accepts[me] = true; goto done :: else fi;
#endif
  STEP;
  if
  :: atomic { lock == NONE -> lock = me }
  :: settled[OLD] && lock != NONE -> goto givesUp
  fi;
  STEP;
  accepts[me] = true;
  goto done;
givesUp:
  accepts[me] = false;
done:
  settled[me] = true;
died:
  skip
}

/* The call breaks by itself, once, or never. */
proctype Fault() {
  if :: broken = true :: true fi
}

proctype Claims() {
  do
  :: atomic { accepts[OLD] && accepts[NEW] && !broken -> assert(false) }
  :: settled[OLD] && settled[NEW] -> break
  od;
  /* Each that lives and listens has the lock, and there is one if any lives that could. */
  assert(!(accepts[OLD] && accepts[NEW]));
  assert(!accepts[OLD] || lock == OLD);
  assert(!accepts[NEW] || lock == NEW);
  assert(dead[OLD] || dead[NEW] || accepts[OLD] || accepts[NEW]);
  assert(!dead[OLD] || dead[NEW] || accepts[NEW])
}

init { atomic { run Old(); run New(); run Fault(); run Claims() } }
