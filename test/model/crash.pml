/* Who is to blame when relays die? The rule of src/relay/trial.h, with every age at which relays may be killed, and every
 * time that answers may take. README.md here says what it shows; `check` runs it.
 *
 * One relay at a time, and two events. Time passes in ticks of a quarter of the first control. What the relay does is
 * one process: in each tick it may send, an answer may come, and it may die. What the store knows survives (`row`), the
 * rest does not.
 *
 *   FATAL_AGES  Every relay is killed at the same age, any one from 1 to AGE_MAX. Nothing may be held.
 *   POISON      Event 0 kills the relay so many ticks after it was sent, any number up to SLOW_MAX. It must be held
 *               by the time DEATHS_MAX relays have died; event 1 never.
 */
#ifndef AGE_MAX
#define AGE_MAX 40
#endif
#ifndef SLOW_MAX
#define SLOW_MAX 6
#endif
#ifndef DEATHS_MAX
#define DEATHS_MAX 7
#endif
#define CRASHES_MAX 7
#define OLD 600
#define BLAMED_MAX 3

#ifdef OLD_RULE /* No control; every death of one that goes alone counts. */
#define CONTROL(e) 0
#define COUNTS(e) true
#else
#ifdef SAME_CONTROL /* It does not double. */
#define CONTROL(e) 4
#else
#define CONTROL(e) (4 << (row[e].crashes - 1))
#endif
#ifdef ANY_AGE /* However long the control has lasted. */
#define COUNTS(e) true
#else
#define COUNTS(e) (age < 2 * CONTROL(e))
#endif
#endif

mtype = { no, yes, on_trial };

typedef Row {
  mtype sending = no;
  byte crashes;
  byte blamed;
  bool held;
};
Row row[2];

short age;
byte left[2]; /* of a trial, in ticks */
byte fuse;    /* ticks until the poison that is under way kills */
byte deaths;
byte fatal_age;
byte slow;

/* An assertion is a name so that spin says which one failed. */
hidden byte innocent_is_not_held;
hidden byte found_in_time;

/* Found by the next relay: an attempt without an answer. */
inline judge(e) {
  if
  :: row[e].sending == no
  :: row[e].sending != no ->
     if
     :: row[e].crashes < CRASHES_MAX -> row[e].crashes++
     :: else
     fi;
     if
     :: row[e].sending == on_trial -> row[e].blamed++
     :: else
     fi;
     row[e].sending = no;
     if
     :: row[e].blamed >= BLAMED_MAX -> row[e].held = true; printf("the event %d is held\n", e)
     :: else
     fi
  fi
}

#ifdef POISON
#define light(e) if :: e == 0 -> fuse = slow :: else fi
#else
#define light(e) skip
#endif

#ifdef TOGETHER /* Suspects do not wait for each other. */
#define ALONE(e) true
#else
#define ALONE(e) (row[1 - e].sending == no)
#endif

/* What has not crashed goes in the usual way, beside others; a suspect goes alone, when its control is over. It may have
 * to wait for others then; where there is poison, until the trial would no longer count. */
inline send(e) {
  if
  :: row[e].held || row[e].sending != no
  :: else ->
     if
#ifdef NOT_HELD_BACK
     :: row[e].crashes > 0 && row[1 - e].sending != on_trial && age < CONTROL(e) -> row[e].sending = yes; light(e)
#endif
     :: row[e].crashes == 0 && row[1 - e].sending != on_trial -> row[e].sending = yes; light(e)
     :: row[e].crashes > 0 && age >= CONTROL(e) && ALONE(e) ->
        if
        :: COUNTS(e) -> row[e].sending = on_trial; left[e] = CONTROL(e) / 4
        :: else -> row[e].sending = yes
        fi;
        light(e);
        printf("relay %d, age %d, sends event %d: %e\n", deaths, age, e, row[e].sending)
#ifdef POISON
     :: row[e].crashes > 0 && age >= CONTROL(e) && ALONE(e) && age < 2 * CONTROL(e) - 1 /* Or not yet. */
     :: else
#else
     :: true
#endif
     fi
  fi
}

/* An answer of any kind ends the row. Where event 0 is poison it gets none, and event 1 gets its own within a tick. */
inline answer(e) {
  if
#ifdef POISON
  :: row[e].sending != no && e == 1 -> clear(e)
  :: else
#else
  :: row[e].sending != no -> clear(e)
  :: true
#endif
  fi
}

inline clear(e) {
  row[e].sending = no; row[e].crashes = 0; row[e].blamed = 0; left[e] = 0
}

/* Still under way when the trial's time is over: a death does not count from now on. */
inline be_late(e) {
  if
  :: row[e].sending == on_trial && left[e] > 0 -> left[e]--
  :: else
  fi;
#if !defined(LATE_COUNTS) && !defined(OLD_RULE)
  if
  :: row[e].sending == on_trial && left[e] == 0 -> row[e].sending = yes
  :: else
  fi
#else
  skip
#endif
}

#ifdef POISON
#define DIES (row[0].sending != no && fuse == 0)
#define LIVES (row[0].held && row[1].crashes == 0)
#else
#define DIES (age >= fatal_age)
#define LIVES false
#endif

active proctype relays() {
  atomic {
#ifdef POISON
    select(slow : 0 .. SLOW_MAX)
#else
    select(fatal_age : 1 .. AGE_MAX)
#endif
  }
  do
  :: atomic {
       send(0);
#ifdef POISON
       send(1);
#endif
       if
       :: DIES ->
          printf("relay %d dies at age %d\n", deaths, age);
          deaths++; age = 0; left[0] = 0; left[1] = 0;
          judge(0); judge(1);
#ifdef POISON
          found_in_time = row[0].held || deaths < DEATHS_MAX;
          assert(found_in_time);
          innocent_is_not_held = !row[1].held;
#else
          innocent_is_not_held = !row[0].held && !row[1].held;
          deaths = 1; /* They go on for ever. */
#endif
          assert(innocent_is_not_held)
       :: else ->
          answer(0); answer(1);
          be_late(0); be_late(1);
          if
          :: fuse > 0 -> fuse--
          :: else
          fi;
          if
          :: age < OLD -> age++
          :: else /* Nothing depends on it any more. */
          fi
       fi
     }
     if
     :: LIVES -> break
     :: else
     fi
  od
}
