/*
 * publish, sleep, doorbell and space, for Spin: two processes, each with an outbox, either of which may die
 * at any step. Claims: no stuck state, no assertion fails, and what was published is consumed unless
 * somebody dies (p1, under weak fairness).
 *
 * Memory is sequentially consistent here. In native/ring/ the stores of the four pairs and the loads of 3 and 4
 * are seq_cst; what weaker stores would do is tried in ring_model.py, with store buffers. A seeded bug that is a
 * missing order is written as the order that would then be possible.
 *
 * -DBUG=n plants one: 1 publish-unordered, 2 release-unordered, 3 announce-unordered, 4 wait-unordered,
 * 5 look-then-announce, 6 reader-blocks-awake, 7 writer-blocks-awake, 8 cursor-before-payload,
 * 9 epoch-restored, 10 bytes-cleared-late, 11 bytes-swallowed, 12 one-role-served, 13 answer-forgotten,
 * 14 death-unheard.
 */
#ifndef BUG
#define BUG 0
#endif
#ifndef CAPACITY
#define CAPACITY 2
#endif
#ifndef SENDS0
#define SENDS0 3
#endif
#ifndef SENDS1
#define SENDS1 1
#endif
#ifndef DEATHS
#define DEATHS 1
#endif

byte producer[2];      /* shared words, each written by its owner alone */
byte consumer[2];
byte data_epoch[2];
byte space_epoch[2];
byte cell[2 * CAPACITY]; /* number of the record in it, plus one */
bool bell[2];          /* a doorbell byte lies in this process's socket */
bool dead[2];          /* its end of the socket is closed */
bool finished[2];
byte written[2];       /* private, but claims look at them */
byte consumed[2];
byte rung[2];          /* doorbells sent to this process */
byte announced[2];     /* sleeps announced by it */
byte deaths;

#define SENDS(who) (who == 0 -> SENDS0 : SENDS1)
#define CELL(who, n) cell[(who) * CAPACITY + ((n) % CAPACITY)]
#define ODD(n) ((n) % 2 == 1)
/* A process may end between any two steps. */
#define STEP if :: deaths < DEATHS -> deaths++; dead[me] = true; goto died :: true fi

proctype Side(byte me) {
  byte peer = 1 - me;
  byte seen = 0;
  byte answered_data = 0;
  byte answered_space = 0;
  byte t; /* a loaded word */
  byte e; /* a loaded epoch */
  bool waits = false;
  bool news;
  bool late = false;

turn:
  /* The event loop may take a byte while we are awake: the turn that runs is the drain it asks for. */
  if :: bell[me] && !late -> bell[me] = false :: true fi;
  STEP;
  t = producer[peer];
  assert(t >= consumed[me] && t - consumed[me] <= CAPACITY);
  if
  :: t > consumed[me] ->
    assert(CELL(peer, consumed[me]) == consumed[me] + 1);
    consumed[me]++;
    STEP;
    /* Release(): cursor first, the peer's space epoch second */
#if BUG == 2
    e = space_epoch[peer];
    consumer[me] = consumed[me];
#else
    consumer[me] = consumed[me];
    STEP;
    e = space_epoch[peer];
#endif
    if
    :: ODD(e) && (e != answered_space || BUG == 13) ->
      answered_space = e;
      STEP;
      d_step { bell[peer] = true; rung[peer]++; assert(rung[peer] <= announced[peer]) }
    :: else
    fi;
    goto turn
  :: else
  fi;
#if BUG == 12
  if :: waits -> goto announce :: else fi;
#endif

  /* Write */
  if
  :: written[me] < SENDS(me) && !dead[peer] ->
    if
    :: written[me] - seen < CAPACITY
    :: else ->
      t = consumer[peer];
      assert(t >= seen && t <= written[me]);
      seen = t;
      if
      :: written[me] - seen < CAPACITY
      :: else -> waits = true; goto announce
      fi
    fi;
    waits = false;
    STEP;
#if BUG == 8
    producer[me] = written[me] + 1;
    STEP;
    CELL(me, written[me]) = written[me] + 1;
    e = data_epoch[peer];
#elif BUG == 1
    CELL(me, written[me]) = written[me] + 1;
    e = data_epoch[peer];
    STEP;
    producer[me] = written[me] + 1;
#else
    CELL(me, written[me]) = written[me] + 1;
    STEP;
    producer[me] = written[me] + 1; /* Publish(): cursor first, the peer's epoch second */
    STEP;
    e = data_epoch[peer];
#endif
    written[me]++;
    if
    :: ODD(e) && (e != answered_data || BUG == 13) ->
      answered_data = e;
      STEP;
      d_step { bell[peer] = true; rung[peer]++; assert(rung[peer] <= announced[peer]) }
    :: else
    fi;
    goto turn
  :: else
  fi;

announce:
  if
  :: written[me] == SENDS(me) && consumed[me] == SENDS(peer) -> goto done
  :: else
  fi;
  STEP;
  /* PrepareToSleep(): epochs first, the peer's cursors second */
#if BUG == 3 || BUG == 5
  news = producer[peer] != consumed[me];
#endif
#if BUG == 4
  if :: waits -> news = news || written[me] - consumer[peer] < CAPACITY :: else fi;
#endif
#if BUG == 6
  announced[me]++;
#else
  d_step { data_epoch[me]++; announced[me]++ }
#endif
  if
  :: waits && BUG != 7 -> STEP; d_step { space_epoch[me]++; announced[me]++ }
  :: else
  fi;
  STEP;
#if BUG == 5
  news = false;
#elif BUG != 3
  news = producer[peer] != consumed[me];
#endif
#if BUG != 4
  STEP;
  if
  :: waits && written[me] - consumer[peer] < CAPACITY -> news = true
  :: else
  fi;
#endif
  if :: news -> goto wake :: else fi;

asleep:
#if BUG == 10
  if :: late -> bell[me] = false; late = false :: else fi;
#endif
  if
  :: bell[me] ->
#if BUG == 11
    bell[me] = false; goto asleep;
#elif BUG == 10
    late = true;
#else
    bell[me] = false;
#endif
    goto wake
#if BUG != 14
  :: dead[peer] -> goto bereaved
#endif
  fi;

wake:
#if BUG == 9
  if :: ODD(data_epoch[me]) -> data_epoch[me]-- :: else fi;
  if :: ODD(space_epoch[me]) -> space_epoch[me]-- :: else fi;
#else
  if :: ODD(data_epoch[me]) -> data_epoch[me]++ :: else fi;
  if :: ODD(space_epoch[me]) -> space_epoch[me]++ :: else fi;
#endif
#if BUG != 12
  waits = false;
#endif
  goto turn;

bereaved:
  /* One snapshot, drained to its end: what was published before the death is delivered. */
  t = producer[peer];
  do
  :: consumed[me] < t ->
    assert(CELL(peer, consumed[me]) == consumed[me] + 1);
    consumed[me]++
  :: else -> break
  od;
  assert(consumed[me] == producer[peer]);

done:
  finished[me] = true;
  goto over;
died:
  skip;
over:
  skip
}

init { atomic { run Side(0); run Side(1) } }

#define ALL_CONSUMED (consumed[1] == SENDS0 && consumed[0] == SENDS1)
/* Whoever is alive comes to its end; and all that was to be sent arrives where nobody dies. */
ltl p1 { <> ((finished[0] || dead[0]) && (finished[1] || dead[1]) && (deaths > 0 || ALL_CONSUMED)) }
