/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long scry waits: every limit of time that it has, room by room, and the kinds of wait for another process, with
 * the one function that decides those. tools/check-layers refuses limits in other places. Where a test waits for one,
 * the place that uses it says time_hasten() (base/system/pause.h). Spans by which a record is judged stand in jobdir/.
 *
 * A row of the table is a kind of wait. One that sleeps should have answered by now, so the limit is for it. One that
 * is stopped (SIGSTOP, a debugger) answers only when somebody lets it go on. One that wants a processor, or waits for a
 * disk, would go on if it could: it has the limit several times.
 *
 * Pure: whoever waits reads the clock and the state (base/system/wait_world.h, agent/system/world.h) and says what it
 * saw. No allocation, no system call, async-signal-safe.
 */
#ifndef SCRY_SHM_WAITS_H
#define SCRY_SHM_WAITS_H

#include <stdbool.h>
#include <stdint.h>

#define WAITS_NS_PER_MS UINT64_C(1000000)
#define WAITS_NS_PER_SECOND UINT64_C(1000000000)
#define WAITS_FOREVER UINT32_MAX

/* agent: inside the user's process; it holds up nobody for long */
#define AGENT_RETRY_MS 2     /* until the monitor's socket is tried again */
#define AGENT_MARK_MS 10000  /* by all processes together, one stop is waited for in this time: a mark says so */
#define AGENT_CLOSING_MS 100 /* for another thread that closes */
#define AGENT_OTHER_MS 300   /* a thread of a child of fork is not held up longer by the one that connects */
#define AGENT_GUARD_US 200   /* between two looks whether another has left a guarded place */
#define AGENT_SLICE_MS 20    /* of waiting for an answer */
#define THIN_OWN_NS 500      /* a call that takes less itself tells little: its records cost a tenth of that */
#define QUIET_MS 25          /* a function of which 2^17 calls are tallied in this is not even tallied any more */
#define THIN_AFTER_MS 50     /* for so long, or for some packets, all calls of a process are recorded all the same */
#define TALLY_REFILL_NS (10 * 1000 * 1000) /* one more line is recorded in this time */
#define FORK_REFILL_MS 50                  /* one more child of fork is traced in this time */

/* base, wire, client: how a monitor is found and spoken to */
#define CACHE_LEFTOVER_S 3600                        /* a temporary file that old belongs to nobody */
#define MEMORY_DIR_AGAIN_NS (10 * 1000 * 1000)       /* until a directory that others make or remove is tried again */
#define PAUSE_LOOK_MS 3                              /* test builds: between two looks whether a pause is over */
#define PAUSE_MOST_S 100                             /* and it is over after so long */
#define CHANNEL_FIRST_NS (1 * WAITS_NS_PER_SECOND)   /* what was not acknowledged is sent again, doubled each time, */
#define CHANNEL_LONGEST_NS (8 * WAITS_NS_PER_SECOND) /* at most */
#define CHANNEL_LATER_NS (50 * WAITS_NS_PER_MS)      /* over a stream an acknowledgement waits, unless much is to be */
#define OLD_MONITOR_WAIT_MS 20                       /* between two checks of a monitor that is ending, */
#define OLD_MONITOR_MS 5000                          /* and how long it is waited for */
#define RELAY_TIMEOUT_MS 30000  /* for WELCOME from elsewhere: later than scry-mirror and scry-link give up */
#define ANSWER_TIMEOUT_MS 10000 /* for WELCOME and GOODBYE, which a living monitor sends at once */
#define EXITING_MS 200          /* for a process that has begun to end, until it can be waited for */
#define START_TIMEOUT_MS 30000  /* for a monitor being started */

/* probe and tracer: looks at processes and nodes */
/* between two readings of ends; a usual buffer (net.core.rmem_max) holds some 550 */
#define EXITS_REST_NS (40 * WAITS_NS_PER_MS)
/* an EXIT without its READ, or a READ without its EXIT, is held back for the next reading, but not longer; unless a
 * ring overflowed they come within microseconds */
#define READS_WAIT_NS (200 * WAITS_NS_PER_MS)
/* a task may be off the processor between its EXIT and its READ: so long, a READ without EXIT is taken for such a one
 * */
#define READS_LATE_NS (300 * READS_WAIT_NS)
#define NODE_FIRST_NS (100 * WAITS_NS_PER_MS)       /* at the beginning a shorter interval is better than no answer */
#define NODE_SLEEPING_NS (15 * WAITS_NS_PER_SECOND) /* so long it is not looked again who sleeps */
#define USERS_ACTIVE_SECONDS 300                    /* a user who typed so recently is there */
/* of processor time, from the end of a stop back into the interrupted call and its sleep: a few microseconds, which
 * others may have in between */
#define SWITCH_RESTART_NS 500000
#define TRACER_TURN_NS (2 * 1000 * 1000)       /* of reading from the tracer, before others have their turn */
#define TRACER_TICK_US 2000                    /* between two ticks of the tracer, while somebody waits for it */
#define TRACER_UNKNOWN_NS WAITS_NS_PER_SECOND  /* for the news of who made a process; then nobody will tell */
#define TRACER_HOT_NS 100000                   /* requests so close together are waited for without a sleep, */
#define TRACER_SPIN_NS 40000                   /* for so long, */
#define TRACER_YIELD_NS 8000                   /* of which so much without giving way; */
#define TRACER_CONTENDED_NS (20 * 1000 * 1000) /* and not at all so long after another wanted the processor */
#define TRACER_STOPPING_NS (20 * 1000 * 1000)  /* for a thread to stop; then it is looked what it does */

/* symbols: reading programs */
#define INDEX_MOST_SECONDS 600  /* to read what a program has of symbols */
#define SAMPLE_WAIT_MS 1000     /* for a thread to get a processor */
#define SAMPLE_PERIOD_NS 200000 /* of the processor's clock */
#define SAMPLE_LOOK_MS 2        /* between two looks whether it is over */

/* monitor, daemon: loops that serve many, and what they watch */
#define CHANGE_REFUSAL_NS (1000 * 1000 * 1000)      /* a refusal holds so long: then it is tried again */
#define PROCESS_SAMPLE_NS (1000 * 1000 * 1000)      /* between two looks at a process */
#define SWITCHING_TURN_NS (2 * 1000 * 1000)         /* what all rings together get of one step of the loop */
#define LOADING_NS (3 * WAITS_NS_PER_SECOND)        /* a library is loaded into a process */
#define LOADING_FIRST_MS 2                          /* until it is tried again, doubled each time, */
#define LOADING_AGAIN_MS 50                         /* at most */
#define TRACER_DEATHS_NS (60 * WAITS_NS_PER_SECOND) /* deaths of the tracer are counted over so long */
#define TRACER_IDLE_NS (10 * WAITS_NS_PER_SECOND)   /* unused for so long, the tracer is ended */
#define TRACE_WAIT_US 100000 /* --overflow wait: for a free packet, unless the user says how long */
/* who greets so close to another is served with it; what is gone by then needed no more than the least */
#define AREA_START_NS (1 * 1000 * 1000)
/* a process that lived no longer, and recorded little, was brief: so will be others of the program */
#define AREA_BRIEF_NS (100 * 1000 * 1000)
#define BELL_SLICE_NS 100000                       /* of a processor for the thread that rings */
#define BELL_AGAIN_NS (10 * 1000 * 1000)           /* until the monitor is told again */
#define AGENT_CLOCK_LEAST_NS (20 * 1000 * 1000)    /* between two readings of clocks, of which a rate is made */
#define COMMANDS_REST_NS (50 * WAITS_NS_PER_MS)    /* between two readings of what shells tell */
#define AGENT_FILES_LOOK_MS 200                    /* between two looks at the free memory */
#define HELLO_TURN_NS (20 * 1000 * 1000)           /* of greeting agents, before tools are answered */
#define HELPER_TIME_NS (300 * WAITS_NS_PER_SECOND) /* of a process that reads symbols */
#define START_EXACT_NS (30 * 1000 * 1000)          /* when a process started is known to a tick of the system */
#define COLLECT_MIN_MS 100                         /* between two rounds while there is something to collect */
#define COLLECT_MAX_MS 2000                        /* while there is not */
#define COLLECT_PARTIAL_MS 1000                    /* until a thread's unfinished packet is brought in */
#define MESSAGE_MORE_NS (500 * 1000 * 1000)        /* for the rest of a message that was begun */
#define MPI_WRITE_EVERY_MS 10000 /* what a process did with MPI is written down, if there is something new */
#define MPI_WRITE_FIRST_MS 1000  /* one that has begun: readers on other nodes know it from there */
#define MPI_LOOK_LEAST_MS 50     /* between two of them */
#define LOCK_LIMIT_NS (10 * WAITS_NS_PER_SECOND) /* a lock on a node's objects is over */
#define TELL_LIMIT_NS (10 * WAITS_NS_PER_SECOND) /* a thread waits for a list elsewhere no longer than this */
#define EDGE_ASK_S 3                             /* a node silent for so long: it is asked whether it is there, */
#define EDGE_SILENT_S 10                         /* and so long: requests that wait for it are answered with an error */
#define EDGE_LOOK_LEAST_NS (100 * 1000 * 1000)   /* between two looks at all nodes */
#define EDGE_CLOCK_NS (30 * WAITS_NS_PER_SECOND) /* a clock is asked for as often, at least */
#define EDGE_GREETING_NS (120 * WAITS_NS_PER_SECOND) /* scry-link has own limits, and may have to copy scry */
#define CONNECTION_TURN_NS (1 * 1000 * 1000)         /* of answering a connection, before others have their turn */
/* after the last removal: whoever removes the directory empties it first, and we must not be in the way */
#define HOME_SETTLE_NS (50 * 1000 * 1000)
#define HOME_AGAIN_NS (1000 * 1000 * 1000) /* until the next check after something was missing */
#define MONITOR_START_MS 20000             /* for a monitor that another process starts */

/* service: limits of requests */
#define CT_HELPER_NS (10 * WAITS_NS_PER_SECOND) /* for the stack of a thread */
#define STACKS_SECONDS 20                       /* to read the stacks of a process */
#define STACKS_MORE_SECONDS 5                   /* until the helper is ended */
/* for a status after the news of an end; it takes longer only for another user's zombie */
#define ENDING_NS (1 * WAITS_NS_PER_SECOND)
/* for the event of an end, less than END_WAIT_MS: it comes some instructions later, but a busy node may have no
 * processor for them */
#define ENDED_EVENT_NS (1500 * WAITS_NS_PER_MS)
#define ENDED_LOST_NS (200 * WAITS_NS_PER_MS) /* the same if events were dropped: it will hardly come */
/* a process of the agent sets its name first of all: one this old, or that sleeps, has done so */
#define NEWBORN_NS (200 * WAITS_NS_PER_MS)
/* a start time is known to a tick of /proc, and from perf; a number is not used again so soon */
#define SAME_START_NS (40 * WAITS_NS_PER_MS)
#define EVENT_EARLY_NS UINT64_C(20000) /* an event of an end comes so much before the end that /proc tells */
#define NODES_TIMEOUT_MOST_MS 600000   /* the most that a tool may wait for nodes */
#define STALL_LEAST_S 0.1              /* a stall that a tool may ask for lasts so long at least, */
#define STALL_MOST_S 1000000           /* and at most */

/* jobdir: what a job directory says of the time */
/* what threads record slowly is on the disk by then: before that, all is there that a living process did */
#define WRITTEN_AFTER_NS (1500 * 1000 * 1000)
#define STARTING_SECONDS 2 /* so young a job directory is one whose scry run is about to describe it */
#define SPOOL_ROOM_NS (1 * WAITS_NS_PER_SECOND) /* between two looks whether a full disk has room again */
#define SPOOL_LEASE_SECONDS 60 /* a job of another host runs as long as its spool grows: at least this often */
/* what a message may take on its way through a broker, beyond the lease of its sender */
#define HEARD_SLACK_SECONDS 5
/* the end of a script that is that of its process is noticed at most so long before that */
#define SCRIPT_OVER_SECONDS 0.05
#define MIRROR_UNUSED_SECONDS (30 * 24 * 3600) /* a mirror that nobody looks at is removed */
#define MIRROR_LOOK_SECONDS 3600               /* between two looks for those */
/* processor times of what lives come in ticks of a hundredth of a second: over less time they make no rate */
#define RATE_SECONDS 0.15
#define SERIES_FIRST_SECONDS 0.25 /* the first width of a column of a picture */

/* job/launch, job/record, job/watch, job/observe: scry run and its observer */
#define STEP_KEPT_SECONDS (24 * 60 * 60)       /* what scry exec leaves for scry run */
#define WITNESS_ANSWER_MS 500                  /* for an answer of the witness, after it was woken, */
#define WITNESS_STOPPED_MS 20                  /* and before that: it may be stopped */
#define WITNESS_WAKE_MS 50                     /* between two looks whether somebody is to be woken again */
#define SAMPLING_FIRST_NS (20 * 1000 * 1000)   /* the first samples are so close */
#define FUNCTIONS_EMPTY_S 2                    /* between two questions while nothing is traced */
#define FUNCTIONS_QUIET_S 10                   /* a function that only goes on is told so seldom */
#define FUNCTIONS_LEAST_NS (900 * 1000 * 1000) /* samples are a second apart, but for a little */
#define WATCH_FIRST_MS 100  /* until a monitor that does not answer is tried again, doubled each time, */
#define WATCH_LAST_MS 30000 /* at most */
#define OBSERVE_NOTED_S 10  /* dropped records are noted at once, and then so seldom */
#define RINGS_PERIOD_NS (200 * 1000 * 1000) /* between two looks at what scripts wrote */
/* a ring is made so long after its process started at most, by a clock of ticks */
#define RINGS_LATE_NS (100 * 1000 * 1000)

#define WRITER_SYNC_NS WAITS_NS_PER_SECOND /* so long after a job's start job.json is brought to disk */

/* job/health: what may go wrong; the spans over which it is judged */
#define CREDENTIALS_EVERY_NS (10 * WAITS_NS_PER_SECOND)     /* between two looks at tickets and tokens */
#define CREDENTIALS_SILENT_NS (10 * WAITS_NS_PER_SECOND)    /* one whose file system does not answer: that is said */
#define CREDENTIALS_WAIT_MS 100                             /* for an answer; then others are looked at */
#define FILESYSTEMS_FIRST_MS 20                             /* for the first answer, for all together */
#define FILESYSTEMS_SILENT_NS (10 * WAITS_NS_PER_SECOND)    /* one without an answer: that is said */
#define FILESYSTEMS_ELSEWHERE_NS (30 * WAITS_NS_PER_SECOND) /* between two looks at one on another machine */
#define FILESYSTEMS_SOON_SECONDS 600                        /* one that is full within so long: that is said */
#define HEALTH_LEAST_NS (250 * WAITS_NS_PER_MS)             /* between two looks; --sample may be less */
#define HEALTH_GROUP_NS (30 * WAITS_NS_PER_SECOND)     /* until it is looked again in which control group the job is */
#define HEALTH_LAST_NS (500 * WAITS_NS_PER_MS)         /* less than that makes no window at a job's end */
#define JUDGE_WINDOW_NS (10 * WAITS_NS_PER_SECOND)     /* over so much of the past it is judged */
#define JUDGE_LEAST_NS (3 * WAITS_NS_PER_SECOND)       /* or, at the end of a job, over so much at least */
#define JUDGE_SOON_SECONDS 120                         /* memory that is used up within so long: that is said */
#define JUDGE_JUMP_NS INT64_C(1000000000)              /* a clock that differs by more was set, or the machine slept */
#define CPU_SOON_SECONDS 600                           /* a limit of processor time that is near: that is said */
#define PROCESSES_USER_NS (10 * WAITS_NS_PER_SECOND)   /* between two counts of the user's processes */
#define PROCESSES_ZOMBIES_NS (5 * WAITS_NS_PER_SECOND) /* between two counts of zombies */
#define HEALTH_RECORD_LEAST_NS (10 * WAITS_NS_PER_SECOND) /* the node's state is recorded as often at least, */
#define HEALTH_RECORD_MOST_NS (900 * WAITS_NS_PER_MS)     /* and when it has changed, as often at most */
#define HEALTH_PEAK_NS (200 * WAITS_NS_PER_MS)            /* processors are counted in hundredths of seconds */

/* The job's PSS is read again after so long without a peak, of no process for which it takes so long, or waits so long,
 * of all in so long at the most, and, but for some credit, for a thousandth of the time. */
#define MEMORY_AGAIN_NS (10 * WAITS_NS_PER_SECOND)
#define MEMORY_ONE_NS (50 * WAITS_NS_PER_MS)
#define MEMORY_WAIT_NS WAITS_NS_PER_SECOND
#define MEMORY_ALL_NS (250 * WAITS_NS_PER_MS)
#define MEMORY_CREDIT_NS (100 * WAITS_NS_PER_MS)
#define MEMORY_LAST_MS 100                     /* at a job's end for what is being read */
#define STALL_IDLE_NS (50 * WAITS_NS_PER_MS)   /* of processor time: a job that used more in the span has not stalled */
#define TREND_FIRST_NS (200 * WAITS_NS_PER_MS) /* between two points of a trend, doubled each time, */
#define TREND_SPAN_NS (2 * WAITS_NS_PER_SECOND)   /* a trend is known after so long */
#define GROWTH_SPAN_NS (10 * WAITS_NS_PER_SECOND) /* what grows so long does so steadily */
#define TREND_MOST_NS (6 * WAITS_NS_PER_SECOND)   /* between two points at most */

/* job/logs, job/scripts, job/python: what programs say and do */
#define LOGS_TURN_CPU_MS 10                     /* of processor time for one source; then the others have a turn */
#define LOGS_SPARE_CPU_MS 200                   /* what may be saved up of its share */
#define LOGS_LEAST_CPU_MS 5                     /* worth a turn */
#define LOGS_SOON_MS 50                         /* looks after something was written */
#define LOGS_SELDOM_MS 1000                     /* then it takes twice as long again and again, until that */
#define LOGS_REST_MS 1000                       /* between looks at what is held back, and for files with wild names */
#define PROFILE_LOOK_NS (200 * WAITS_NS_PER_MS) /* scry-profile: between two looks at threads that stand, */
#define PROFILE_LOOK_MOST_NS (2 * WAITS_NS_PER_SECOND) /* where all of them do, */
#define PROFILE_ORDER_NS (2 * WAITS_NS_PER_MS)         /* until a record is whole in its ring, */
#define PROFILE_STEADY_NS WAITS_NS_PER_SECOND          /* after its first sample a process is expected to go on, */
#define PROFILE_WRITE_NS (2 * WAITS_NS_PER_SECOND)     /* between two files, */
#define PROFILE_SPAN_NS (100 * WAITS_NS_PER_MS)        /* of samples that are counted together, at first, */
#define PROFILE_ASK_NS (500 * WAITS_NS_PER_MS)         /* until the first question for functions, */
#define PROFILE_PLACES_NS (2 * WAITS_NS_PER_SECOND)    /* from an answer about what is inlined to the next question, */
#define PROFILE_PLACES_MOST_NS (10 * WAITS_NS_PER_SECOND) /* for the answer, */
#define PROFILE_MAP_NS (100 * WAITS_NS_PER_MS)            /* between two looks into /tmp/perf-PID.map, */
#define PROFILE_TIMES_NS (100 * WAITS_NS_PER_MS) /* without perf events: between two looks at what threads have used, */
#define PROFILE_NAMES_NS (2 * WAITS_NS_PER_SECOND) /* and at the end for functions of files that are new to scry */
#define PROFILE_START_MS 1000                      /* for scry-profile to begin, */
#define PROFILE_END_MS 3000                        /* for scry-profile to end: less than WAIT_OBSERVED */
#define LOGS_END_MS 400                            /* for the last lines, when the job has ended */
#define LOGS_TEE_MS 200     /* for tee(1), which writes them when the script that sent it its output has ended */
#define KEEP_TIMES_MS 50    /* job/output: so often it is noted when something was written; */
#define RELAY_COPY_MS 2000  /* the job waits so long, in all, for what keeps a copy of its output, */
#define RELAY_STUCK_MS 2000 /* at its end scry run waits so long for a reader that takes nothing, */
#define RELAY_KEPT_MS 1000  /* and at its end scry run does; */
#define RELAY_AGAIN_MS 1000 /* a second process is tried again where none could be made */
#define SESSION_END_MS \
    500 /* the leader of the session of a job's terminal ends within that, or the session gets its SIGHUP */
#define TERMINAL_LOOK_MS \
    200 /* scry run in the background of its terminal looks so often whether it is in its foreground again */
#define LOGS_NEVER_NS (3600 * WAITS_NS_PER_SECOND) /* until scry set wants something */
#define LOGS_NEAR_SECONDS 60     /* an error so long before the end may say why: logs of programs are left alone */
#define PROGRESS_APART_SECONDS 4 /* points of a progress are at least so far apart */
#define SCRIPTS_LOOK_NS (100 * 1000 * 1000)        /* between two looks, while something changes */
#define SCRIPTS_SOON_NS (1 * 1000 * 1000)          /* after a process was seen: more of them come at once */
#define SCRIPTS_SELDOM_NS (1000 * 1000 * 1000)     /* while nothing changes */
#define PYTHON_RAISED_NS (1000 * 1000 * 1000)      /* an exception may be on its way for so long */
#define PYTHON_LINE_NS (200 * 1000 * 1000)         /* between two looks at the line of a Python program, */
#define PYTHON_STACK_NS (10 * WAITS_NS_PER_SECOND) /* and at all its stacks */

/* job/parts, job/places: parts of a job on other nodes; where programs are */
#define PARTS_ROUND_MS 2000                    /* between two rounds of the nodes */
#define PARTS_CAME_ROUND_MS 500                /* of nodes that wait at the end for their last files */
#define PARTS_CAME_EACH_MS 2                   /* many of them are asked less often */
#define PARTS_LAST_MS 300                      /* between two rounds after the command's end */
#define PARTS_LAST_SECONDS 3600                /* so long at most: a node may go on for ever */
#define PARTS_LEASE_SECONDS 20                 /* what is known of a part is true for so long */
#define PARTS_CLOCK_STALE_NS (1 * 1000 * 1000) /* clock.json may be off by so much more than is known */
#define MPI_NAMES_TIMEOUT_MS 10000             /* to name the places of calls of MPI */
#define PLACE_NAMES_TIMEOUT_MS 10000           /* to name the places of samples */
#define WHERE_PERIOD_NS 500000                 /* of the processor's clock */
#define WHERE_SAMPLE_MS 60                     /* so long it is looked where a program is, */
#define WHERE_SAMPLE_MOST_MS 1000              /* at most */
#define BLOCKED_OPEN_MS 100                    /* what is open on the node is looked at again after this */
#define WHERE_TIMEOUT_MS 10000                 /* and to name those places */

/* job/run: scry run at a job's start and end */
#define CRASH_TIMEOUT_MS 20000                     /* to read a core */
#define FINISH_MPI_NAMES_MS 3000                   /* to name the places of calls of MPI, for the summary */
#define FINISH_TRACES_NS (2 * WAITS_NS_PER_SECOND) /* to read traces for the summary */
#define UNCLOCKED_LEAST_NS (10 * WAITS_NS_PER_MS)  /* less missing processor time is not mentioned */
#define PUBLISH_REFUSED_MS 60000                   /* between two warnings of requests that were refused */
#define PUBLISH_MOST_MS 10000                      /* the publisher is waited for at the end, while it gets on */
#define PUBLISH_SILENCE_MS 30000                   /* without a connection for so long: a warning */
#define PUBLISH_LOST_MS 10000                      /* at the end, if there was one: for so long */
#define REASON_NEARLY_MS 500                       /* so near to a limit of processor time is the limit */
#define SUPERVISE_START_MS 5000                    /* for the monitor to follow the held job */
#define SUPERVISE_ANSWER_MS 5000                   /* for one answer of a working monitor, at the end */
#define SUPERVISE_TOLD_SECONDS 1.5                 /* a job that is this old says for what it waits at its end */
#define END_WAIT_MS 2000                           /* for the records of ended processes, while none of them arrive */
#define END_MOST_MS 10000                          /* the same in all */
#define END_ANSWER_MS 5000                         /* then for one answer of a working monitor */
#define END_LOST_MS 300       /* for ends of processes after lost records; follow.h says how late they can be */
#define END_PROPAGATED_MS 500 /* for the launcher's ssh, which ends when the daemon on the other node has */
#define END_TRACES_POLL_MS 5  /* between two looks whether threads have recorded the rest */
#define END_COMING_POLL_MS 20 /* between two looks at what is coming */

/* task: tasks and their runner */
#define TASK_GRACE_SECONDS 5    /* between asking and killing */
#define TASK_LEAVE_SECONDS 2    /* for what goes on when its command has ended: daemons of launchers need a moment */
#define TASK_GATHER_SECONDS 900 /* to bring the files of a run home, unless it ran longer */
#define TASK_SHARED_SECONDS 10  /* until what another node wrote is seen here */
#define TASK_LOOK_NS (250 * WAITS_NS_PER_MS)    /* between two looks of the runner */
#define TASK_IDLE_NS (10 * WAITS_NS_PER_SECOND) /* without a task the runner ends */
/* a controller has many users: why a run waits is asked at once, then less and less often, */
#define TASK_WHY_FIRST_SECONDS 1
#define TASK_WHY_MOST_SECONDS 60 /* at most */

/* link: connections between nodes */
#define LINK_DIAL_SECONDS 10 /* for a connection */
/* until the other end has answered on it; ssh may have to ask other machines first */
#define LINK_GREETING_SECONDS 15
#define LINK_QUIET_SECONDS 3  /* who has said nothing for so long says that it lives */
#define LINK_DEAD_SECONDS 10  /* who was not heard for so long does not */
#define LINK_LEASE_SECONDS 60 /* a session lives so long without a connection */
/* who was told that too many came at once comes again, doubled each time */
#define LINK_CROWDED_NS (200 * WAITS_NS_PER_MS)
#define LINK_FIRST_NS (20 * WAITS_NS_PER_MS)      /* until a lost connection is made again, doubled each time, */
#define LINK_LONGEST_NS (2 * WAITS_NS_PER_SECOND) /* at most */
#define LINK_CLOSING_SECONDS 10                   /* for the other end to take the rest */
#define STREAM_LINGER_MS 2000                     /* for what was sent last to arrive */
#define LINK_ADDRESS_SECONDS 3                    /* for one of several addresses */
#define BRIDGE_START_MS 10000                     /* for the monitor that the bridge starts */
#define SSH_END_MS 2000                           /* for ssh to end */
#define NODE_COPY_SECONDS 30                      /* to bring scry to a node */
#define NODE_GATE_MS 50                           /* between two looks whether another one brings it */
#define NODE_LOOK_SECONDS 15                      /* to look what a node has */
#define NODE_CLOCK_SECONDS 2                      /* a clock that is further ahead, or behind: that is said */
#define SERVE_IDLE_SECONDS 60                     /* a server that was started for one connection ends */
#define SERVE_LEAVE_SECONDS 2                     /* for one who was refused, to read why */
#define SERVE_LOOK_SECONDS 5                      /* whether keys were revoked, or have expired */
#define SERVE_GUEST_SECONDS 10                    /* those who are not known have so long to say who they are */
#define SEALED_WINDOW_SECONDS (10 * 60)           /* a message that expires later than so long after now is refused */

/* whoever tries again what another machine refuses: after so many tries in a row it comes once a minute, or less often */
#define AGAIN_MANY 10
#define AGAIN_SELDOM_NS (60 * WAITS_NS_PER_SECOND)

/* broker: connections to a broker, and the private one */
#define BROKER_KEEPALIVE_SECONDS 15                  /* a broker asks whether one is there who was silent for so long */
#define BROKER_GOODBYE_MS 200                        /* for DISCONNECT, when the socket is full */
#define BROKER_LOOK_MS 10                            /* between two looks whether it answers */
#define BROKER_TERM_MS 3000                          /* for saving what it keeps; then it is killed */
#define BROKER_ANSWER_NS (10 * WAITS_NS_PER_SECOND)  /* to connect */
#define BROKER_FIRST_NS (500 * WAITS_NS_PER_MS)      /* until it is tried again, doubled each time, */
#define BROKER_LONGEST_NS (10 * WAITS_NS_PER_SECOND) /* at most */
#define BROKER_BRIEF_NS (2 * WAITS_NS_PER_SECOND)    /* a connection that was no longer was of no use */
/* and one that was longer is the last of its row: longer than two that have each other thrown out wait for their turn */
#define BROKER_STEADY_NS (2 * AGAIN_SELDOM_NS)

/* publish: a job at a broker */
#define PUBLISH_LEASE_SECONDS 15                    /* what a job said of itself is true for so long */
#define PUBLISH_BEAT_SECONDS 5                      /* so often it says that it runs */
#define CONTROL_LEASE_SECONDS 60                    /* a session of which nothing came for so long is over */
#define CONTROL_ANSWER_SECONDS 300                  /* an answer can be opened for so long */
#define CONTROL_REFUSED_SECONDS 10                  /* between two words on what was refused */
#define FILES_REST_MS 5000                          /* a file that changes all the time is sent again after so long */
#define FOLLOW_BATCH_MS 100                         /* a batch this old is sent */
#define PUBLISHER_TICK_NS (1 * WAITS_NS_PER_SECOND) /* between two looks at the job */
#define PUBLISHER_GROWN_NS (50 * WAITS_NS_PER_MS)   /* between two looks at a file that has grown */
#define PUBLISHER_LEFT_SECONDS 60     /* it goes on so long after a job, if its scry run has not waited for it */
#define PUBLISHER_STORED_SECONDS 5    /* it waits so long for recorders */
#define PUBLISHER_ALONE_SECONDS 30    /* `scry publish`: it gives up after so long without progress, */
#define PUBLISHER_NEVER_SECONDS 10    /* or without having been connected at all */
#define PUBLISHER_LINGER_MS 2000      /* after the end, and after each question: for readers that lack something */
#define PUBLISHER_ALONE_LINGER_MS 300 /* scry publish: a person waits */
#define PUBLISHER_HEARD_MS 2000       /* its own beat comes back sooner, once the broker has acknowledged it */
#define PUBLISHER_REPORT_SECONDS 5    /* for report.txt, which comes behind job.json */

/* mirror: whoever follows a job at a broker */
#define MIRROR_STATES_NS (1 * WAITS_NS_PER_SECOND) /* without a message: what a broker remembers has come */
#define MIRROR_FOLLOW_MS 100                       /* between two looks */
#define MIRROR_FOLLOW_SECONDS 10                   /* for the connection to the broker */
#define MIRROR_GONE_NS (30 * WAITS_NS_PER_SECOND)  /* what a job that is gone has not sent by then does not come */
#define FORGET_SECONDS 10      /* for the connection, and for all that the broker remembers of a job */
#define FORGET_BACK_SECONDS 3  /* an empty message comes back, after the broker has acknowledged all */
#define MIRROR_LIST_SECONDS 10 /* for the jobs of a broker */
#define MIRROR_LIST_MS 100     /* between two looks whether all have come */
#define QUESTION_ANSWER_NS (4 * WAITS_NS_PER_SECOND) /* for an answer to what was missed, while nothing of it comes */
#define QUESTION_MOST_NS (60 * WAITS_NS_PER_SECOND)  /* until it is asked again, at most */
#define QUESTION_STALLED_NS (500 * 1000 * 1000)      /* what comes in another order is there by then */
#define MIRROR_REACH_SECONDS 4                       /* for a broker to answer */
#define RELAY_BROKER_SECONDS 8                       /* for the connection to the broker, and what it has of the job */
#define RELAY_ASK_NS (1000 * 1000 * 1000)            /* until the job has answered, it is asked so often */
#define RELAY_VALID_SECONDS 120                      /* a message, by the job's clock */
#define RELAY_QUIET_NS (5 * WAITS_NS_PER_SECOND)     /* a session in which nothing was said says that it is there */
#define REVOKE_SECONDS 10                            /* for the connection to the broker */
#define REVOKE_TRY_MS 100                            /* until it is tried again */

/* store and site: databases, and what a site serves */
#define SQLITE_BUSY_MS 2000                 /* a writer has other things to do, too, and tries again later */
#define SQLITE_READ_BUSY_MS 20000           /* whoever reads has nothing else to do */
#define STORE_FLUSH_MS UINT64_C(200)        /* what has come is written after so long, */
#define STORE_AGAIN_MS UINT64_C(1000)       /* and so long after an error, doubled each time, */
#define STORE_AGAIN_MOST_MS UINT64_C(10000) /* at most */
#define STORE_OWNER_MS UINT64_C(2000)       /* for another recorder to end */
#define STORE_OWNER_LOOK_MS 50              /* between two looks whether it has */
#define STORE_TICK_MS UINT64_C(200)         /* between two looks at what is missing */
#define STORE_KEEP_MS UINT64_C(3600000)     /* between two looks for what is old enough to go */
#define STORE_TIMEOUT_MS 2000               /* what is missing may be on its way */
#define STORE_ANSWER_MS 10000               /* for an answer of the publisher */
#define STORE_DOUBT_MS 500                  /* the publisher has connected since: what was asked before may be lost */
#define STORE_SAY_MS 2000                   /* between two words to the publisher on what is stored */
#define STORE_REST_MS 2000                  /* after a question that nobody answered, doubled each time */
/* some brokers change the order: what was answered may come behind the end of the answer */
#define STORE_GRACE_MS 400
#define STORE_QUIET_MS 1500                          /* after the last message: what the broker remembers has come */
#define IMPORT_LEASE_SECONDS 60                      /* what an imported job says of itself is true for so long */
#define ROW_MOST_SECONDS 1000000000                  /* of a job: more is a lie */
#define NOTIFIER_AGAIN_NS (10 * WAITS_NS_PER_SECOND) /* until the program that tells others is started again */
#define SITE_SETTLED_SECONDS 600.0                   /* a younger job may still begin */
#define SITE_VISIT_SECONDS 10                        /* for a request, and for taking the answer */
#define SITE_KEEP_SECONDS 20                         /* a connection between requests */
#define SITE_FRESH_MS 1000                           /* an answer is good for so long, however many ask */
#define SITE_REST_SECONDS 5                          /* at the end */
#define SITE_FIRST_WAIT_MS 250                       /* after a batch that was not taken; doubled each time */
#define SITE_MOST_WAIT_MS 30000                      /* at most */
#define SITE_LOOK_MS 500                             /* for more to send */
#define SITE_TICK_MS 200                             /* between two looks whether it is to end */
#define SITE_RECENT_SECONDS 86400.0                  /* jobs so young are shown, unless others are asked for */
#define SITE_RECENT_MINUTES 15                       /* "now" of a job: its newest minutes */

/* web: scry serve */
#define CERTIFICATE_LOOK_SECONDS 3 /* between two looks whether the certificate has changed */
#define HTTP_AGAIN_MS 100          /* until one who asks too often is listened to again */
#define HTTP_REQUEST_SECONDS 10    /* for the headers of a request */
#define HTTP_KEEP_SECONDS 60       /* a connection between requests */
/* for the body of a request, or a piece of an upload; for all of that one second more for each */
#define HTTP_BODY_SECONDS 20
#define HTTP_SEND_SECONDS 30                /* to take a piece of an answer; for all of it one second more for each */
#define HTTP_WINDOW_MS 5                    /* until it is looked again whether the other end takes more */
#define HTTP_LOOK_MS 250                    /* likewise, whether who waits for an answer is still there */
#define CHANGES_LOOK_MS 300                 /* between two looks whether a directory has changed */
#define CHANGES_SECONDS 60                  /* one who waits for a change has an answer after so long */
#define CHILD_REAP_MS 5                     /* between two looks whether a child has ended */
#define CHILD_LOOK_MS 250                   /* the same, while it is not to end yet */
#define CONTROL_LIMIT_SECONDS 60            /* to send a signal to a job behind a broker, */
#define CONTROL_HERE_SECONDS 5              /* and to one here */
#define DOWNLOAD_FRESH_MS 1000              /* a list of files is good for so long */
#define DOWNLOAD_LIMIT_SECONDS 60           /* for that list */
#define FOLLOW_SLICE_MS 8                   /* of reading, before others have their turn */
#define FOLLOW_QUICK_MS 40                  /* between two looks at a job that writes, */
#define FOLLOW_SLOW_MS 240                  /* and at one that did not for FOLLOW_QUIET_MS */
#define FOLLOW_QUIET_MS 2000                /* without a byte for so long a job is quiet */
#define FOLLOW_STATE_MS 1000                /* between two looks for new parts, and at the job's state */
#define FOLLOW_AGAIN_MS 5000                /* until a program that keeps the mirror is started again */
#define FOLLOW_KEEP_MS 10000                /* when nobody looks any more: a browser may come back */
#define INVITE_SECONDS 30                   /* for the answer to an invitation */
#define JOBS_LIVE_MS 1000                   /* an answer on a running job is good for so long, */
#define JOBS_LIST_MS 1000                   /* the list of jobs, */
#define JOBS_VIEW_MS 200                    /* and a part of a picture */
#define JOBS_LIMIT_SECONDS 120              /* for such an answer */
#define LIST_HERE_MS 1000                   /* a list of the jobs here is good for so long, */
#define LIST_ELSEWHERE_MS 5000              /* and of those behind a broker */
#define LIST_LIMIT_SECONDS 120              /* for such a list */
#define STREAM_QUIET_SECONDS 15             /* a stream of which nothing came says that it is there */
#define STREAM_TIMEOUT_SECONDS 60           /* for its reader to take more */
#define TASKS_LIMIT_SECONDS 60              /* for a change of a task */
#define VIEWER_IDLE_SECONDS 300             /* a program that draws ends when nobody asks */
#define VIEWER_TIMEOUT_SECONDS 180          /* for one answer */
#define VIEWER_LOOK_SECONDS 5               /* between two looks for these */
#define VIEW_LOOK_NS (1000 * 1000 * 1000)   /* between two looks at a running job, at least */
#define VIEW_SEARCH_NS (2000 * 1000 * 1000) /* to search for a name */

/* cli: what the commands wait for */
#define FIND_SHOW_MS 100                            /* between two pictures of how far a search is */
#define NODES_TIMEOUT_MS 8000                       /* a login takes some seconds on a busy machine */
#define NOW_ROUNDED_SECONDS 100.0                   /* what lasts longer is told without decimals */
#define NOW_TOLD_SECONDS 2.0                        /* how long something has been so is not told before */
#define PARTS_SILENT_S 10                           /* a part without a word is silent */
#define DOCTOR_TRACES_NS (10 * WAITS_NS_PER_SECOND) /* to read traces */
#define PS_SIZES_NS (300 * 1000 * 1000)             /* to count how large the job directories are */
#define RANKS_FRESH_NS (3 * WAITS_NS_PER_SECOND)    /* an answer comes twice a second */
#define RANKS_SHORT_NS (10 * WAITS_NS_PER_MS) /* shorter times are not shown: they are over before they are read */
#define REPLAY_POLL_MS 100                    /* between two pictures */
#define REPLAY_NAMING_SECONDS 3               /* time for a new process's functions to get names */
#define SET_LOOK_NS (30 * 1000 * 1000)        /* between two looks whether a setting is in force */
#define JOBS_WATCH_MS 500 /* between two looks: network file systems say nothing of changes elsewhere */
#define JOBS_REDRAW_NS (100 * WAITS_NS_PER_MS) /* between two pictures */
/* until a monitor that is gone is tried again: one that does not answer delays a picture by as much */
#define TOP_AGAIN_NS (50 * WAITS_NS_PER_MS)
#define TOP_SLOW_NS (10 * WAITS_NS_PER_SECOND) /* the same, when it was too slow */
#define TOP_RANKS_NS (1000 * 1000 * 1000)      /* other nodes write seldom, so they are read ten times as seldom */
#define TOP_REFRESH_MS 500                     /* between two pictures */
#define TOP_ASK_S 10                           /* for one picture; a monitor on a busy node may need it */
#define TOP_YOUNG_S 2                          /* a job this young may have no monitor yet */
#define TOP_CONNECT_MS 20                      /* between two looks for a young job's monitor */
#define TOP_FILE_NS (2 * WAITS_NS_PER_SECOND)  /* between two looks at profile.json */
#define TOP_FINAL_NS (2 * WAITS_NS_PER_SECOND) /* time to read the traces when the job is over */
#define LOCKS_BETWEEN_MS 50                    /* between two looks at who holds a lock */
#define STUCK_DEADLOCK_MS 5000                 /* a job that has been idle for so long: whether it is a deadlock, */
#define STUCK_FIFO_MS 60000                    /* or waits for a FIFO, which somebody else may open */

struct wait_policy {
    uint32_t limit_ms;      /* 0: the caller gives it; WAITS_FOREVER: as long as it takes */
    uint32_t stopped_ms;    /* so long for one that is stopped; 0: a stop is not looked for */
    uint32_t unseen_ms;     /* so long for one whose state cannot be read; 0: as for one that sleeps */
    uint32_t starved_times; /* so many limits for one that is in state R or D, */
    uint32_t cpu_times;     /* until it has used a processor for so many limits; 0: that does not count */
    uint32_t first_look_ms; /* nothing is looked at sooner */
    uint32_t look_ms;       /* then it is looked again after so long; 0: at the limit; */
    uint32_t late_look_ms;  /* after the limit, of one that has it several times, after so long */
};

enum wait_kind {
    WAIT_HELLO,       /* agent, interposer: for the monitor's answer to hello */
    WAIT_HELLO_FORK,  /* the same in a child of fork */
    WAIT_DIAL,        /* both: until the monitor's socket has room, while too many wait there */
    WAIT_HELD,        /* a thread: until the monitor lets it go on */
    WAIT_MAIN,        /* a program before main: until everything asked for is in place */
    WAIT_MAIN_FORK,   /* a child of fork: the same, */
    WAIT_MAIN_DLOPEN, /* and a program whose first library with hooks came by dlopen */
    WAIT_SEEN,        /* after dlopen, before MPI_Init: until the monitor has seen what is there */
    WAIT_PACKET,      /* --overflow wait: for a free packet */
    WAIT_GATE,        /* interposer: while the monitor looks at a queue that has become longer */
    WAIT_MESSAGE,     /* interposer: for a message that is to be there, under the monitor's command */
    WAIT_RANK,        /* monitor: for the next call of MPI of a rank that is to do something */
    WAIT_TRACER,      /* monitor: for an answer of its tracer */
    WAIT_ANSWER,      /* libomis: for an answer of the monitor */
    WAIT_RUN,         /* `scry run`: the same, to connect and while nothing else can be done */
    WAIT_RUN_ARMING,  /* `scry run`: for a request to come into force; the monitor may have to start its tracer */
    WAIT_RUN_SILENCE, /* `scry run`: until a gap in what is sampled is written down */
    WAIT_SET,         /* `scry set`: as WAIT_RUN */
    WAIT_WRITTEN,     /* `scry run`: until its job directory is written, at a job's start and end */
    WAIT_OBSERVED,    /* `scry run`: for its observer, at a job's start and end */
    WAIT_STEP,        /* `scry exec` of a batch job: for the `scry run` that starts beside it */
    WAIT_PARTS,       /* `scry run`: for the parts of its job on other nodes, at a job's end */
    WAIT_NEWS,        /* `scry why`: until what the monitor wrote elsewhere has come through the broker */
    WAIT_RELAY,       /* a tool, by `scry-mirror relay`: for a job behind a broker */
    WAIT_PUBLISHED,   /* `scry run`: for its publisher, at a job's end, while it gets on */
    WAIT_MIRROR,      /* scry: until the program that follows a job at a broker has ended */
    WAIT_RANKS,       /* `scry why`: until each rank that looks for messages had a processor */
    WAIT_BROKER,      /* whoever needs the private broker: until it answers after its start */
    WAIT_TOLD,        /* `scry record`: for the program that tells others, until it has sent the rest */
    WAIT_KINDS,
};

/*
 * Some figures differ without a reason that is known. They are what each wait had when they were put side by side:
 * starved_times (4, 5, 8, 20), and looks from 20 to 100 ms apart. 200 ms for a stop is long enough for ^Z and fg, and
 * short enough for a job. A limit of the row may be lowered or raised by the caller (struct wait_seen).
 *
 * Of WAIT_RUN..., WAIT_SET, WAIT_MESSAGE and WAIT_RANK only the limit is in force: libomis judges them as WAIT_ANSWER;
 * and a gate is waited at as a thread that is held, but not for ever.
 */
static const struct wait_policy wait_policies[WAIT_KINDS] __attribute__((unused)) = {
    /* limit_ms, stopped_ms, unseen_ms, starved_times, cpu_times, first_look_ms, look_ms, late_look_ms */
    [WAIT_HELLO] = {1000, 200, 0, 4, 0, 5, 50, 50},
    [WAIT_HELLO_FORK] = {250, 200, 0, 4, 0, 5, 50, 50}, /* nobody sees why a child should take longer */
    [WAIT_DIAL] = {0, 200, 0, 1, 0, 5, 5, 0}, /* the limit of the question; whose socket it is, is not known */
    [WAIT_HELD] = {WAITS_FOREVER, 200, 1000, 1, 0, 0, 50, 0},
    [WAIT_MAIN] = {20000, 200, 0, 1, 0, 0, 100, 0}, /* the monitor sends it to the agent */
    [WAIT_MAIN_FORK] = {250, 200, 0, 1, 0, 0, 100, 0},
    [WAIT_MAIN_DLOPEN] = {2000, 200, 0, 1, 0, 0, 100, 0},
    [WAIT_SEEN] = {500, 200, 0, 8, 0, 0, 20, 20},
    [WAIT_PACKET] = {0, 0, 0, 20, 0, 0, 100, 20}, /* whoever is stopped frees nothing: three vain waits are the last */
    [WAIT_GATE] = {10000, 200, 1000, 1, 0, 0, 50, 0}, /* of slices that WAIT_HELD allows */
    [WAIT_MESSAGE] = {200, 0, 0, 1, 0, 0, 0, 0},
    [WAIT_RANK] = {2000, 0, 0, 1, 0, 0, 0, 0},
    [WAIT_TRACER] = {3000, 0, 0, 5, 0, 0, 0, 50},
    [WAIT_ANSWER] = {0, 200, 0, 5, 2, 0, 100, 100},
    [WAIT_RUN] = {1000, 200, 0, 5, 2, 0, 100, 100},
    [WAIT_RUN_ARMING] = {10000, 200, 0, 5, 2, 0, 100, 100},
    [WAIT_RUN_SILENCE] = {5000, 200, 0, 5, 2, 0, 100, 100},
    [WAIT_SET] = {2000, 200, 0, 5, 2, 0, 100, 100},
    [WAIT_WRITTEN] = {3000, 200, 0, 2, 0, 0, 50, 50},
    [WAIT_OBSERVED] = {4000, 200, 0, 1, 0, 0, 50, 50}, /* longer than it waits for scry-profile itself */
    [WAIT_STEP] = {2000, 0, 0, 1, 0, 0, 5, 0},         /* it may be no job: nothing is known of it yet */
    [WAIT_PARTS] = {3000, 0, 0, 1, 0, 0, 20, 0},       /* of one whose node has died nothing comes any more */
    [WAIT_NEWS] = {8000, 0, 0, 1, 0, 0, 100, 0},
    [WAIT_RELAY] = {15000, 0, 0, 1, 0, 0, 1000, 0},
    [WAIT_BROKER] = {8000, 0, 0, 1, 0, 0, 10, 0},
    [WAIT_PUBLISHED] = {3000, 200, 0, 2, 0, 0, 50, 50},
    [WAIT_MIRROR] = {1000, 0, 0, 1, 0, 0, 0, 0},
    [WAIT_TOLD] = {6000, 0, 0, 1, 0, 0, 0, 0},
    [WAIT_RANKS] = {100, 0, 0, 30, 0, 0, 100, 100}, /* starved: one whose time on a processor says so */
};

enum wait_verdict {
    WAIT_ON,      /* go on */
    WAIT_STOPPED, /* it is stopped, or may be for all that can be seen: no use until that changes */
    WAIT_LATE,    /* it had its time */
};

struct wait_seen {
    uint64_t passed_ns; /* since it was asked; of one that is waited for while it runs: since it was not seen to run */
    uint64_t limit_ns;  /* the caller's limit; 0: the row's */
    uint64_t cpu_ns;    /* processor time it has used meanwhile, where the row asks */
    char state;         /* the kernel's letter in /proc/PID/stat; 0: not known */
    bool in_vain;       /* somebody has waited for it, as it is now, already */
};

/* For how long to wait after so many tries in a row that were of no use: the first pause, doubled each time. */
static inline uint64_t waits_again_ns(unsigned in_a_row, uint64_t first_ns, uint64_t longest_ns)
{
    uint64_t pause_ns = first_ns;
    if (in_a_row >= AGAIN_MANY)
        return longest_ns > AGAIN_SELDOM_NS ? longest_ns : AGAIN_SELDOM_NS;
    for (unsigned i = 1; i < in_a_row && pause_ns < longest_ns; i++)
        pause_ns *= 2;
    return pause_ns < longest_ns ? pause_ns : longest_ns;
}

static inline bool waits_is_stopped(char state)
{
    return state == 'T' || state == 't';
}

/* It would go on if it had a processor, or if its disk answered. */
static inline bool waits_is_starved(char state)
{
    return state == 'R' || state == 'D';
}

/* What is left of one that has ended. */
static inline bool waits_is_dead(char state)
{
    return state == 'Z' || state == 'X';
}

/* The limit in force, ns; UINT64_MAX: none. 0 of a row that leaves it to the caller means that no time is left. */
static inline uint64_t waits_limit_ns(const struct wait_policy *policy, const struct wait_seen *seen)
{
    if (seen->limit_ns)
        return seen->limit_ns;
    return policy->limit_ms == WAITS_FOREVER ? UINT64_MAX : policy->limit_ms * WAITS_NS_PER_MS;
}

static inline uint64_t waits_times(uint64_t limit_ns, uint32_t times)
{
    return limit_ns > UINT64_MAX / (times ? times : 1) ? UINT64_MAX : limit_ns * times;
}

static inline enum wait_verdict waits_judge(const struct wait_policy *policy, const struct wait_seen *seen)
{
    bool stopped = policy->stopped_ms && waits_is_stopped(seen->state), unseen = policy->unseen_ms && !seen->state;
    if (stopped || unseen) {
        uint64_t most_ns = (stopped ? policy->stopped_ms : policy->unseen_ms) * WAITS_NS_PER_MS;
        if (seen->in_vain || seen->passed_ns >= most_ns)
            return WAIT_STOPPED;
    }
    uint64_t limit_ns = waits_limit_ns(policy, seen);
    bool starved = waits_is_starved(seen->state) &&
                   (!policy->cpu_times || seen->cpu_ns < waits_times(limit_ns, policy->cpu_times));
    return seen->passed_ns < waits_times(limit_ns, starved ? policy->starved_times : 1) ? WAIT_ON : WAIT_LATE;
}

/* For how long to sleep until it is looked again; not beyond the limit. ns, at least 1. */
static inline uint64_t waits_slice_ns(const struct wait_policy *policy, const struct wait_seen *seen)
{
    uint64_t limit_ns = waits_limit_ns(policy, seen);
    if (seen->passed_ns < policy->first_look_ms * WAITS_NS_PER_MS)
        return policy->first_look_ms * WAITS_NS_PER_MS;
    if (seen->passed_ns >= limit_ns)
        return policy->late_look_ms ? policy->late_look_ms * WAITS_NS_PER_MS : 1;
    uint64_t left_ns = limit_ns - seen->passed_ns, slice_ns = policy->look_ms * WAITS_NS_PER_MS;
    return slice_ns && slice_ns < left_ns ? slice_ns : left_ns;
}

#endif
