/*
 * The election of a shared helper, for Spin: programs that ask at the same moment, and the helpers that they start. Any
 * of them may die at any step; a helper may also end by itself when it is idle. Claims: two helpers never listen at
 * once; and each program that lives gets a session, unless more helpers have died than may be started here.
 *
 * Two locks, both given up by the kernel with their holder: that of a starter (`src/shared/start-shared.ts`) and that of
 * the path, which its listener has (`src/uds/socket-file.ts`). The file of the socket outlives a helper that was killed.
 *
 * -DBUG=n plants one: 1 a helper listens without the lock of the path, 2 the lock of a starter outlives it, 3 a starter
 * does not look again once it has the lock, and takes a helper for its own, 4 a helper that ends gives the lock up
 * before it removes the file, and does not look whose file it is, 5 a helper that finds the path taken is a failure,
 * 6 a stale file counts as a listener, 7 a starter gives the lock up before its helper listens and waits for that one.
 */
#ifndef BUG
#define BUG 0
#endif
#ifndef DEATHS
#define DEATHS 2
#endif
#define STARTERS 2
#define HELPERS 5   /* processes that may be started */
#define NONE 99

byte startLock = NONE;
byte pathLock = NONE;
byte file = NONE;        /* whose socket has the name */
bool listens[HELPERS];
bool ended[HELPERS];
bool taken[HELPERS];     /* it has ended because another one has the path */
byte spawned;
byte deaths;
bool connected[STARTERS];
bool gone[STARTERS];
bool failed[STARTERS];

#define LISTENER (file != NONE && listens[file])

proctype Helper(byte me) {
  byte h; byte count;
  if
  :: deaths < DEATHS -> deaths++; goto died
  :: true
  fi;
#if BUG != 1
  if
  :: atomic { pathLock == NONE -> pathLock = me }
  :: atomic { pathLock != NONE -> taken[me] = true }; goto died
  fi;
#endif
  atomic {
    file = me; listens[me] = true;
    h = 0; count = 0;
    do :: h < HELPERS -> count = count + (listens[h] -> 1 : 0); h++ :: else -> break od;
    assert(count == 1)
  };
  if
  :: deaths < DEATHS -> deaths++; goto killed
  :: deaths < DEATHS -> deaths++; goto idle /* so that they are few */
  :: gone[0] && gone[1] -> goto idle
  fi;
idle:
#if BUG == 4
  atomic { listens[me] = false; if :: pathLock == me -> pathLock = NONE :: else fi };
  file = NONE;
#else
  atomic { listens[me] = false; if :: file == me -> file = NONE :: else fi };
#endif
killed:
  atomic { listens[me] = false; if :: pathLock == me -> pathLock = NONE :: else fi };
died:
  atomic { listens[me] = false; ended[me] = true;
    if :: pathLock == me -> pathLock = NONE :: else fi }
}

proctype Starter(byte me) {
  byte mine;
again:
  if
  :: LISTENER -> goto done
#if BUG == 6
  :: file != NONE && !LISTENER -> goto failure
#endif
  :: !LISTENER
  fi;
  if
  :: atomic { startLock == NONE -> startLock = me }
  :: startLock != NONE -> goto waits
  fi;
  if
  :: deaths < DEATHS -> deaths++; goto died
  :: true
  fi;
#if BUG != 3
  if
  :: LISTENER -> goto done
  :: !LISTENER
  fi;
#endif
  if
  :: spawned == HELPERS -> goto done /* no more than the model has */
  :: atomic { spawned < HELPERS -> mine = spawned; spawned++; run Helper(mine) }
  fi;
#if BUG == 7
  startLock = NONE;
#endif
  if
  :: deaths < DEATHS -> deaths++; goto died
  :: true
  fi;
  if
#if BUG == 3 || BUG == 7
  :: listens[mine] -> goto done
#else
  :: LISTENER -> goto done
#endif
  :: ended[mine] && taken[mine] ->
#if BUG == 5 || BUG == 3 || BUG == 7
    goto failure
#else
    startLock = NONE; goto again
#endif
  :: ended[mine] && !taken[mine] -> startLock = NONE; goto again
  fi;
waits:
  if
  :: LISTENER -> goto again
  :: startLock == NONE -> goto again
  fi;
failure:
  failed[me] = true;
done:
  atomic { connected[me] = !failed[me]; gone[me] = true; if :: startLock == me -> startLock = NONE :: else fi };
  goto ends;
died:
  atomic { gone[me] = true;
#if BUG != 2
    if :: startLock == me -> startLock = NONE :: else fi
#endif
  };
ends:
  assert(!failed[me])
}

init { atomic { run Starter(0); run Starter(1) } }
