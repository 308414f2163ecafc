/* The relay protocol: windows, cursor, lease, fence, take-over, block and hand-back, under faults.
   README.md beside this file tells what is modelled, what is not, and what each broken variant shows.

   One destination, one shard, two relays, two ordering keys, up to four events in up to three transactions.
   A relay has no control state of its own: it is a set of atomic steps over the database and its memory, any of which
   may come next. So a pause of any length, and any overlap of publishing with its own open transaction, are covered by
   interleaving alone. There are no clocks: a lease may run out at any moment, and a relay that lost it goes on
   publishing until the fence tells it. What holds here therefore holds without trust in time.

   Bounds, all of them, set with -D:
     TRANSACTIONS    of producers: 2 (three events) or 3 (four events)
     FAILURES        deliveries that fail, lose their confirmation, or take too long
     FAULTS          lease runs out, relay killed, connection cut, server crash: any mix
     SERVER_CRASHES  of the faults, at most
     STOPS           clean hand-overs; these are not faults
     ZOMBIES         1, or 0: a lease never runs out while its owner lives, as if every relay kept to its time
     STRAYS          1: a message may come in after its relay was killed or has forgotten it; or 0
   Every step uses up a bound or moves the work on, so every run ends; where nothing can move any more, the system is
   at rest and I1 is asserted.

   Broken variants, one -D each:
     FENCE_WITHOUT_LOCK       the fence checks the term, but takes no lock that a take-over waits for
     CURSOR_IN_TAKE_OVER      the cursor is read by the statement that raises the term
     HAND_BACK_BEFORE_COMMIT  a key flows again when its last result is decided, not when that is committed
     KEEP_S1                  s1 survives a reconnect in memory
     TWO_IN_FLIGHT            two events of a key are in flight
     DRAIN_BEFORE_COMMIT      a queue goes on when an event of it is given up, not when that is committed
     RECHECK_WITHOUT_RAISE    after a reconnect the owner only looks whether the lease is still its own
     PLACE_WITHOUT_WINDOW     a take-over half way through a window applies its place to a newer snapshot
     ROW_BEFORE_CURSOR        a row enters undelivered before the cursor passes its event
     UNDELIVERED_NOT_LOADED   a take-over publishes before it has read undelivered
     CLAIM_BEFORE_PROBE       the flushing commit comes before the probe
     SETTLE_NOT_SYNCHRONOUS   a settle may be lost in a server crash after its commit has returned
     POOLER                   a connection pooler hides a server crash from idle relays; cured by MOVE_S1_WHEN_FLUSHED
   NO_I6 and NO_I7 leave those assertions out, to see what comes of their violation. */

#ifndef TRANSACTIONS
#define TRANSACTIONS 2
#endif
#ifndef FAILURES
#define FAILURES 1
#endif
#ifndef FAULTS
#define FAULTS 2
#endif
#ifndef SERVER_CRASHES
#define SERVER_CRASHES 1
#endif
#ifndef STOPS
#define STOPS 0
#endif
#ifndef ZOMBIES
#define ZOMBIES 1
#endif
#ifndef STRAYS
#define STRAYS 0
#endif

/* ---- Sets ------------------------------------------------------------------------------------------------------
   Events and transaction ids are few, so a set of them is a bit mask and a single one is a mask of one bit. The bits
   are in the order of seq (of xid): `e - 1` is everything drawn before e. What the steps print is for `check --story`,
   which writes events:5 as e1 e3. */
#define lowest(set)   ((set) & -(set))
#define fill(set)     ((set) | ((set) >> 1) | ((set) >> 2) | ((set) >> 3))     /* all up to the highest of the set */
#define after(e)      (~(2 * (e) - 1))

/* ---- The database ---------------------------------------------------------------------------------------------- */
mtype = { idle, open, committed, gone };        /* gone: rolled back, or lost with the server's unflushed tail */
typedef Transaction { mtype state = idle; byte xid; byte events };
Transaction tx[3];
byte key_events[2];                             /* by ordering key: its events, less those that are gone */
byte next_seq = 1;
byte next_xid = 1;
byte finished;                                  /* xids committed or rolled back: the current snapshot */

byte durable;                                   /* events whose commit is on disk */
byte durable_xids;                              /* xids that recovery knows as used and never hands out again */

/* The events a snapshot sees: it holds the xid, and the transaction committed. */
#define seen_of(t, s)  ((tx[t].state == committed && (tx[t].xid & (s))) -> tx[t].events : 0)
#define seen(s)        (seen_of(0, s) | seen_of(1, s) | seen_of(2, s))
#define all_committed  seen(255)
#define key_of(e)      ((key_events[0] & (e)) -> key_events[0] : key_events[1])

/* Table lease: one row. Free: its owner's time has run out. A term is never given twice, so it stands for the owner. */
byte lease_term = 1;
byte lease_owner = 1;
bit  lease_free;

/* Table cursor: its newest row. Settled is what s1 sees, and what s2 sees up to the place. s1 == s2: no window open. */
typedef Cursor { byte s1; byte s2; byte place };
Cursor cursor;

/* Table undelivered. */
byte waiting;                                   /* retrying or blocked: to be delivered, in order of seq per key */
byte dead;                                      /* given up; the key goes on */

#define settled_of(set) ((seen(cursor.s1) | (seen(cursor.s2) & cursor.place)) & ~waiting & (set))

/* Settling transactions that have passed the fence and hold FOR KEY SHARE on the lease: those of relay 1 and 2, and at
   0 an orphan: its client was killed or cut off, the server has not noticed, and will yet commit it or roll it back. */
typedef Settle {
  bit  running;
  byte term;
  byte s1; byte s2; byte place;                 /* the cursor row it appends */
  byte joins;                                   /* rows it inserts into undelivered */
  byte deletes;                                 /* rows it deletes there, or turns into dead letters */
  byte dies;                                    /* dead letters it makes */
  byte leaves                                   /* events that leave the relay's memory when it has committed */
};
Settle settle[3];

#ifdef FENCE_WITHOUT_LOCK
#define lease_locked 0
#else
#define lease_locked (settle[0].running || settle[1].running || settle[2].running)
#endif

/* ---- A relay's memory ------------------------------------------------------------------------------------------ */
typedef Memory {
  bit  connected = 1;                           /* it may learn late that it is not */
  byte term;                                    /* of the lease it believes to hold; 0: none */
  byte s1; byte s2; byte place;                 /* as in Cursor */
  bit  claimed;                                 /* a flushed commit came after s2 was read */
  byte unsent;                                  /* of the window: not published yet */
  byte flying;                                  /* published, no outcome yet */
  byte done;                                    /* delivered, not yet committed as such */
  byte joining;                                 /* of the window: blocked, not yet committed as such */
  byte dying;                                   /* given up, not yet committed as such */
  byte queue;                                   /* waits in undelivered, as committed; may be flying, done, dying too */
#if defined(CURSOR_IN_TAKE_OVER) || defined(KEEP_S1)
  bit  has_cursor;                              /* s1 is from an earlier statement or connection */
#endif
};
Memory memory[3];                               /* of relay 1 and 2 */
#define mine memory[r]

/* ---- The destination, and what must hold ------------------------------------------------------------------------ */
byte delivered;                                 /* events that arrived at least once */
#if STRAYS
byte stray;                                     /* on their way, forgotten by the relay that published them */
#endif

byte failures_left = FAILURES;
byte faults_left = FAULTS;
byte server_crashes_left = SERVER_CRASHES;
byte stops_left = STOPS;
#define crash_can_come (server_crashes_left > 0 && faults_left > 0)

/* Not part of the state: set and used within one step. An assertion is a name so that spin says which one failed. */
hidden byte I1_nothing_is_skipped, I2_nothing_uncommitted_is_delivered, I3_keys_keep_their_order,
            I4_no_double_without_a_fault, I6_settled_stays_settled, I7_no_zombie_write_takes_effect,
            undelivered_is_empty_at_rest, owner_knows_undelivered;
hidden byte ripe, undecided, next, kept;

inline choose(e, set) {
  if
  :: (set) & 1 -> e = 1
  :: (set) & 2 -> e = 2
  :: (set) & 4 -> e = 4
#if TRANSACTIONS == 3
  :: (set) & 8 -> e = 8
#endif
  fi
}

/* An event that is dead may yet come in late, after followers, from a relay that does not know: a zombie. */
#if ZOMBIES
#define excused(e) (dead & (e))
#else
#define excused(e) 0
#endif

inline deliver(e) {
  printf("events:%d arrives\n", e);
  I2_nothing_uncommitted_is_delivered = (durable & e) != 0;
  assert(I2_nothing_uncommitted_is_delivered);
  I3_keys_keep_their_order = (delivered & e) || excused(e) || !(delivered & key_of(e) & after(e));
  assert(I3_keys_keep_their_order);
#if FAULTS == 0 && FAILURES == 0
  I4_no_double_without_a_fault = !(delivered & e);
  assert(I4_no_double_without_a_fault);
#endif
  delivered = delivered | e
}

/* ---- The server ------------------------------------------------------------------------------------------------ */
#ifdef SETTLE_NOT_SYNCHRONOUS
Cursor disk_cursor;
byte disk_waiting, disk_dead;
#endif

/* Everything before this point of the WAL is on disk. */
inline flush() {
  durable = all_committed;
  durable_xids = fill(finished);
#ifdef SETTLE_NOT_SYNCHRONOUS
  disk_cursor.s1 = cursor.s1; disk_cursor.s2 = cursor.s2; disk_cursor.place = cursor.place;
  disk_waiting = waiting; disk_dead = dead;
#endif
}

/* Once no crash can come any more, what is on disk no longer matters: states that differ in it alone become one. */
inline flush_if_no_crash_can_come() {
  if
  :: !crash_can_come -> flush()
  :: else
  fi
}

inline forget_transaction(t) {
  key_events[0] = key_events[0] & ~tx[t].events;
  key_events[1] = key_events[1] & ~tx[t].events;
  tx[t].state = gone;
  tx[t].events = 0;
  tx[t].xid = 0
}

inline end_settle(n) {
  settle[n].running = 0; settle[n].term = 0;
  settle[n].s1 = 0; settle[n].s2 = 0; settle[n].place = 0;
  settle[n].joins = 0; settle[n].deletes = 0; settle[n].dies = 0; settle[n].leaves = 0
}

inline commit_settle(n) {
  printf("the settle of term %d commits: cursor xids:%d..xids:%d place events:%d, ", settle[n].term,
    settle[n].s1, settle[n].s2, settle[n].place);
  printf("blocks events:%d, deletes events:%d, buries events:%d\n", settle[n].joins, settle[n].deletes, settle[n].dies);
#ifndef NO_I7
  I7_no_zombie_write_takes_effect = settle[n].term == lease_term;
  assert(I7_no_zombie_write_takes_effect);
#endif
  cursor.s1 = settle[n].s1; cursor.s2 = settle[n].s2; cursor.place = settle[n].place;
  waiting = (waiting | settle[n].joins) & ~settle[n].deletes;
  dead = dead | settle[n].dies;
#ifdef SETTLE_NOT_SYNCHRONOUS
  flush_if_no_crash_can_come()
#else
  flush()
#endif
}

/* The client of settling transaction n is no more: the transaction becomes the orphan, or is rolled back if there is
   one already. */
inline abandon_settle(n) {
  if
  :: settle[n].running && !settle[0].running ->
     settle[0].running = 1; settle[0].term = settle[n].term;
     settle[0].s1 = settle[n].s1; settle[0].s2 = settle[n].s2; settle[0].place = settle[n].place;
     settle[0].joins = settle[n].joins; settle[0].deletes = settle[n].deletes; settle[0].dies = settle[n].dies
  :: else
  fi;
  end_settle(n)
}

/* ---- Producers: lock the aggregate, then enqueue ---------------------------------------------------------------- */
#define locks(t, k) (tx[t].state == open && (tx[t].events & key_events[k]))
#define locked(k)   (locks(0, k) || locks(1, k) || locks(2, k))

inline enqueue(t, k) {
  if
  :: d_step { tx[t].state == open && !locked(k) ->
       printf("transaction %d enqueues events:%d of key %d\n", t, next_seq, k);
       tx[t].events = tx[t].events | next_seq;
       key_events[k] = key_events[k] | next_seq;
       next_seq = next_seq << 1 }
  :: tx[t].state == gone -> goto over
  fi
}

/* One transaction with an event of first_key and, if that is another, one of last_key. Of two producers that do the
   same, `elder` begins first: the other way round would be the same run. */
proctype producer(byte t; byte first_key; byte last_key; byte elder) {
  /* The xid is drawn before the lock is waited for, so xids need not come in the order of seq. */
  d_step { (elder == t || tx[elder].state != idle) ->
    printf("transaction %d begins with xids:%d\n", t, next_xid);
    tx[t].state = open;
    tx[t].xid = next_xid;
    next_xid = next_xid << 1 };
  enqueue(t, first_key);
  if
  :: first_key != last_key -> enqueue(t, last_key)
  :: else
  fi;
  if
  :: d_step { tx[t].state == open ->
       printf("transaction %d commits\n", t);
       tx[t].state = committed; finished = finished | tx[t].xid; flush() }
  :: d_step { tx[t].state == open && crash_can_come ->
       printf("transaction %d commits, not flushed (synchronous_commit = off)\n", t);
       tx[t].state = committed; finished = finished | tx[t].xid }
  :: d_step { tx[t].state == open ->
       printf("transaction %d rolls back\n", t);
       finished = finished | tx[t].xid; forget_transaction(t); flush_if_no_crash_can_come() }
  :: tx[t].state == gone                                                        /* the server crashed */
  fi;
over:
  skip
}

/* ---- A relay: what it decides in memory ------------------------------------------------------------------------- */
/* A key is blocked while it has undelivered events, or a result of it that is not `delivered` is uncommitted. */
#ifdef HAND_BACK_BEFORE_COMMIT
#define blockers (mine.joining | (mine.queue & ~(mine.done | mine.dying)))
#else
#define blockers (mine.joining | mine.queue | mine.dying)
#endif
#define blocked_of(k) ((key_events[k] & (blockers)) -> key_events[k] : 0)

/* New events of a blocked key join its queue. */
inline join_blocked_keys() {
  mine.joining = mine.joining | (mine.unsent & (blocked_of(0) | blocked_of(1)));
  mine.unsent = mine.unsent & ~mine.joining
}

#ifdef TWO_IN_FLIGHT
#define may_fly(k) (!(mine.flying & key_events[k] & ~lowest(mine.flying & key_events[k])))
#else
#define may_fly(k) (!(mine.flying & key_events[k]))
#endif
#ifdef DRAIN_BEFORE_COMMIT
#define unburied 0
#else
#define unburied mine.dying
#endif
#define next_of_queue(k) (!(key_events[k] & (unburied)) -> \
  lowest(mine.queue & ~(mine.flying | mine.done | mine.dying) & key_events[k]) : 0)
#define next_of_window(k) ((mine.claimed && !(key_events[k] & (blockers))) -> lowest(mine.unsent & key_events[k]) : 0)

inline publish_key(k) {
  if
  :: may_fly(k) ->
     next = (next_of_queue(k) -> next_of_queue(k) : next_of_window(k));
     if
     :: next != 0 -> printf("relay %d publishes events:%d\n", r, next)
     :: else
     fi;
#ifndef NO_I6
     I6_settled_stays_settled = mine.term != lease_term || !settled_of(next);
     assert(I6_settled_stays_settled);
#endif
     mine.unsent = mine.unsent & ~next;
     mine.flying = mine.flying | next
  :: else
  fi
}

/* Ends every step of a relay: what may fly, flies. Waiting before it sends would be the same as a message that takes
   longer; so would `unavailable`, after which the event is sent again and nothing else moves. */
inline publish() {
  publish_key(0);
  publish_key(1);
#ifdef TWO_IN_FLIGHT
  publish_key(0);
  publish_key(1);
#endif
}

/* The cursor is to pass the event with a row in undelivered; its followers with it. */
inline block(e) {
  if
  :: mine.queue & e                             /* has its row */
  :: else -> mine.joining = mine.joining | e; join_blocked_keys()
  fi
}

inline retry_later(e) {
  printf("relay %d will retry events:%d\n", r, e);
  failures_left--;
  mine.flying = mine.flying & ~e;
  block(e)
}

/* A final outcome. The row of an event that was slow is no longer needed, unless it is being inserted. */
inline decide(e) {
  mine.flying = mine.flying & ~e;
  mine.joining = mine.joining & ~(e & ~settle[r].joins)
}

inline confirm(e) {
  printf("relay %d has events:%d confirmed\n", r, e);
  decide(e);
  mine.done = mine.done | e
}

inline give_up(e) {
  printf("relay %d gives up events:%d\n", r, e);
  failures_left--;
  decide(e);
  mine.dying = mine.dying | e
}

inline pass_by(e) {
  printf("relay %d waits no longer for events:%d\n", r, e);
  failures_left--;
  block(e)
}

/* ---- A relay: what it reads and writes -------------------------------------------------------------------------- */
#define window              (mine.unsent | ((mine.flying | mine.done | mine.joining | mine.dying) & ~mine.queue))
#define undecided_of_window (mine.unsent | (mine.flying & ~(mine.queue | mine.joining)))
#define decided_of_queue    (mine.queue & (mine.done | mine.dying))
/* What of the window the cursor may pass: the decided before the first undecided. */
#define ripe_of_window (undecided_of_window -> window & (lowest(undecided_of_window) - 1) : window)
#ifdef ROW_BEFORE_CURSOR
#define to_join        mine.joining
#else
#define to_join        (mine.joining & ripe_of_window)
#endif
#define has_results    (to_join || ripe_of_window || decided_of_queue || (mine.s1 == mine.s2 && mine.s1 != cursor.s1))

/* Forgets all that was read from the database and all that follows from it. Without STRAYS, what was flying arrived
   before this or never; that leaves out little, for a relay that forgets late is as good as a late message. */
inline drop(r) {
  printf("relay %d drops all it knew\n", r);
#if STRAYS
  stray = stray | memory[r].flying;
#endif
  memory[r].term = 0;
  memory[r].s1 = 0; memory[r].s2 = 0; memory[r].place = 0; memory[r].claimed = 0;
  memory[r].unsent = 0; memory[r].flying = 0; memory[r].done = 0;
  memory[r].joining = 0; memory[r].dying = 0; memory[r].queue = 0;
#if defined(CURSOR_IN_TAKE_OVER) || defined(KEEP_S1)
  memory[r].has_cursor = 0;
#endif
}

inline read_cursor() {
  mine.s1 = cursor.s1; mine.s2 = cursor.s2; mine.place = cursor.place
}

/* What the terms before have settled, and the rest of a window they left half way. That window needs no claim: the
   commit that saved its place came after its s2 was read. */
inline load() {
#if defined(CURSOR_IN_TAKE_OVER)
  mine.has_cursor = 0;                          /* read when the statement began */
#elif defined(KEEP_S1)
  kept = mine.s1;
  read_cursor();
  if
  :: mine.has_cursor && mine.s1 == mine.s2 -> mine.s1 = mine.s1 | kept; mine.s2 = mine.s1
  :: else
  fi;
  mine.has_cursor = 0;
#else
  read_cursor();
#endif
#ifdef PLACE_WITHOUT_WINDOW
  if
  :: mine.s1 != mine.s2 -> mine.s2 = finished
  :: else
  fi;
#endif
#ifndef UNDELIVERED_NOT_LOADED
  mine.queue = waiting;
#endif
  mine.unsent = seen(mine.s2 & ~mine.s1) & ~mine.place;
  join_blocked_keys();
  printf("relay %d has loaded cursor xids:%d..xids:%d place events:%d, undelivered events:%d\n",
    r, mine.s1, mine.s2, mine.place, mine.queue);
  mine.claimed = 1;
  publish()
}

/* The rest of the probing transaction: fence lock and commit, which flushes everything s2 can see. */
inline claim(r) {
  if
  :: mine.term != lease_term -> drop(r)
  :: else ->
     printf("relay %d commits its claim\n", r);
     flush();
     mine.claimed = 1;
#ifdef MOVE_S1_WHEN_FLUSHED
     if
     :: window == 0 -> mine.s1 = mine.s2
     :: else
     fi;
#endif
     publish()
  fi
}

/* After the fence: a row enters undelivered only in the transaction in which the cursor passes its event. */
inline write_results() {
  printf("relay %d passes the fence with term %d and writes its results\n", r, mine.term);
  ripe = ripe_of_window;
  undecided = undecided_of_window;
  settle[r].running = 1;
  settle[r].term = mine.term;
  settle[r].s2 = mine.s2;
  settle[r].joins = to_join;
  settle[r].deletes = decided_of_queue;
  settle[r].dies = mine.dying & (ripe | mine.queue);
  settle[r].leaves = (ripe & ~mine.joining) | decided_of_queue;
  if
  :: undecided == 0 -> settle[r].s1 = mine.s2
  :: else -> settle[r].s1 = mine.s1; settle[r].place = fill(mine.place | ripe)
  fi
}

inline results_are_committed() {
  mine.queue = (mine.queue | settle[r].joins) & ~settle[r].leaves;
  mine.joining = mine.joining & ~settle[r].joins;
  mine.done = mine.done & ~settle[r].leaves;
  mine.dying = mine.dying & ~settle[r].leaves;
  if
  :: mine.s2 == settle[r].s2 -> mine.s1 = settle[r].s1; mine.place = settle[r].place
  :: else                                       /* a probe came between: only undelivered was written */
  fi
}

#define lease_can_be_mine (mine.connected && mine.term == 0 && (lease_free || lease_owner == r))
#ifdef CURSOR_IN_TAKE_OVER
#define statement_has_begun mine.has_cursor
#else
#define statement_has_begun 1
#endif

proctype relay(byte r) {
  byte e;                                       /* 0 between steps */
end:
  do
  /* Take-over, also of one's own lease after a reconnect: raises the term, which waits for every settling transaction
     of the old one; then, in a later statement of the same transaction, reads. */
  :: d_step { lease_can_be_mine && statement_has_begun && !lease_locked ->
       lease_term++; lease_owner = r; lease_free = 0;
       printf("relay %d takes over with term %d\n", r, lease_term);
       flush();
       mine.term = lease_term;
       load() }
#ifdef CURSOR_IN_TAKE_OVER
  :: d_step { lease_can_be_mine && !mine.has_cursor ->
       printf("relay %d begins to take over and reads the cursor\n", r);
       read_cursor(); mine.has_cursor = 1 }
  :: d_step { mine.has_cursor && !lease_can_be_mine -> drop(r) }
#endif

  /* Probe. An empty window moves s1 in memory only. */
  :: d_step { mine.connected && mine.term != 0 && mine.s1 == mine.s2 && mine.s2 != finished ->
       mine.s2 = finished;
       mine.unsent = seen(mine.s2 & ~mine.s1);
       printf("relay %d probes from xids:%d to xids:%d: events:%d\n", r, mine.s1, mine.s2, mine.unsent);
       join_blocked_keys();
       if
#ifndef MOVE_S1_WHEN_FLUSHED
       :: seen(mine.s2 & ~mine.s1) == 0 -> mine.s1 = mine.s2
#endif
       :: else ->
#ifdef CLAIM_BEFORE_PROBE
          publish()
#else
          mine.claimed = 0;
          if
          :: !crash_can_come -> claim(r)        /* nothing that could come between matters */
          :: else
          fi
#endif
       fi }
  :: d_step { mine.connected && mine.term != 0 && !mine.claimed -> claim(r) }

  /* What comes of a publish: it is delivered; or it is to be retried, and arrived (the confirmation is lost) or not;
     or so many attempts were made that it is given up, again arrived or not; or it is slow. */
  :: atomic { mine.flying != 0 ->
       choose(e, mine.flying);
       if
       :: d_step { true -> deliver(e); confirm(e) }
       :: d_step { failures_left > 0 -> retry_later(e) }
       :: d_step { failures_left > 0 -> deliver(e); retry_later(e) }
       :: d_step { failures_left > 0 -> give_up(e) }
       :: d_step { failures_left > 0 -> deliver(e); give_up(e) }
       :: d_step { failures_left > 0 && !((mine.queue | mine.joining) & e) -> pass_by(e) }
       fi;
       d_step { publish(); e = 0 } }

  /* Settle: fence and write; later, commit. The relay goes on publishing between. That the commit has taken effect and
     that the relay knows are one step: not to learn of it is to be killed or cut off before it. */
  :: d_step { mine.connected && mine.claimed && !settle[r].running && has_results ->
       if
       :: mine.term != lease_term -> drop(r)
       :: else -> write_results()
       fi }
  :: d_step { mine.connected && settle[r].running ->
#ifndef NO_I7
       owner_knows_undelivered = mine.queue == waiting;
       assert(owner_knows_undelivered);
#endif
       commit_settle(r);
       results_are_committed();
       end_settle(r);
       publish() }

  /* The tick tells a relay that its lease is another's. */
  :: d_step { mine.connected && mine.term != 0 && mine.term != lease_term -> drop(r); end_settle(r) }

  /* A new connection: nothing read on the old one is kept. */
#if defined(RECHECK_WITHOUT_RAISE)
  :: d_step { !mine.connected ->
       printf("relay %d has a new connection\n", r);
       kept = mine.term;
       drop(r);
       mine.connected = 1;
       if
       :: kept == lease_term -> mine.term = kept; load()
       :: else
       fi }
#elif defined(KEEP_S1)
  :: d_step { !mine.connected ->
       printf("relay %d has a new connection and keeps s1\n", r);
       kept = mine.s1; drop(r); mine.connected = 1; mine.s1 = kept; mine.has_cursor = 1 }
#else
  :: d_step { !mine.connected ->
       printf("relay %d has a new connection\n", r);
       drop(r); mine.connected = 1 }
#endif
  od
}

/* ---- Faults ----------------------------------------------------------------------------------------------------- */
inline use_up_a_fault() {
  faults_left--;
  flush_if_no_crash_can_come()
}

/* Its lease will run out. It starts again with nothing in memory, as an owner nobody knows. */
#define KILL(r) \
  :: d_step { faults_left > 0 && memory[r].term != 0 -> \
       printf("relay %d is killed\n", r); \
       use_up_a_fault(); \
       abandon_settle(r); \
       drop(r); \
       memory[r].connected = 1; \
       if \
       :: lease_owner == r -> lease_free = 1 \
       :: else \
       fi }

#define CUT(r) \
  :: d_step { faults_left > 0 && memory[r].term != 0 && memory[r].connected -> \
       printf("relay %d is cut off\n", r); \
       use_up_a_fault(); \
       abandon_settle(r); \
       memory[r].connected = 0 }

/* A clean stop: nothing is left in flight or uncommitted. */
#define STOP(r) \
  :: d_step { stops_left > 0 && memory[r].term == lease_term && memory[r].connected && !settle[r].running && \
              !(memory[r].unsent | memory[r].flying | memory[r].done | memory[r].joining | memory[r].dying) -> \
       printf("relay %d stops cleanly\n", r); \
       stops_left--; \
       drop(r); \
       lease_free = 1; lease_owner = 0 }

inline lose_transaction(t) {
  if
  :: tx[t].state == open || (tx[t].state == committed && !(tx[t].events & durable)) -> forget_transaction(t)
  :: else
  fi
}

inline lose_connection(r) {
#ifdef POOLER
  if
  :: settle[r].running || (memory[r].term != 0 && !memory[r].claimed) -> memory[r].connected = 0
  :: else
  fi
#else
  memory[r].connected = 0
#endif
}

/* What was not flushed never was, and its xids are handed out again. */
inline crash_server() {
  printf("the server crashes\n");
  lose_transaction(0); lose_transaction(1); lose_transaction(2);
  finished = durable_xids;
  next_xid = durable_xids + 1;
#ifdef SETTLE_NOT_SYNCHRONOUS
  cursor.s1 = disk_cursor.s1; cursor.s2 = disk_cursor.s2; cursor.place = disk_cursor.place;
  waiting = disk_waiting; dead = disk_dead;
#endif
  lose_connection(1); lose_connection(2);
  end_settle(0); end_settle(1); end_settle(2);
  server_crashes_left--;
  use_up_a_fault()
}

active proctype world() {
#if STRAYS
  byte e;                                       /* 0 between steps */
#endif
  do
#if ZOMBIES
  :: d_step { faults_left > 0 && !lease_free ->
       printf("the lease of term %d runs out\n", lease_term);
       use_up_a_fault(); lease_free = 1 }
#endif
  KILL(1)
  KILL(2)
  CUT(1)
  CUT(2)
#if SERVER_CRASHES > 0
  :: d_step { crash_can_come -> crash_server() }
  :: d_step { crash_can_come -> flush(); crash_server() }                       /* the WAL writer was just in time */
#endif
#if STOPS > 0
  STOP(1)
  STOP(2)
#endif
  :: d_step { faults_left > 0 -> faults_left = 0; flush() }                     /* no more faults in this run */
#if STRAYS
  :: atomic { stray != 0 ->
       choose(e, stray);
       if
       :: d_step { true -> deliver(e) }
       :: true
       fi;
       d_step { stray = stray & ~e; e = 0 } }
#endif
  :: d_step { settle[0].running -> commit_settle(0); end_settle(0) }
  :: d_step { settle[0].running -> printf("the orphan is rolled back\n"); end_settle(0) }
  :: timeout -> d_step {                                                        /* at rest */
       printf("at rest: committed events:%d, delivered events:%d, dead events:%d, undelivered events:%d\n",
         all_committed, delivered, dead, waiting);
       I1_nothing_is_skipped = !(all_committed & ~(delivered | dead));
       assert(I1_nothing_is_skipped);
       undelivered_is_empty_at_rest = waiting == 0;
       assert(undelivered_is_empty_at_rest) };
     break
  od
}

init {
  atomic {
    memory[1].term = 1; memory[1].claimed = 1;
    run producer(0, 0, 0, 0);
    run producer(1, 1, 0, 1);
#if TRANSACTIONS == 3
    run producer(2, 0, 0, 0);
#endif
    run relay(1); run relay(2)
  }
}
