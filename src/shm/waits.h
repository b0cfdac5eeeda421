/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long scry waits for another process, and the one function that decides it. A row of the table is a kind of wait.
 * One that sleeps should have answered by now, so the limit is for it. One that is stopped (SIGSTOP, a debugger)
 * answers only when somebody lets it go on. One that wants a processor, or waits for a disk, would go on if it could:
 * it has the limit several times.
 *
 * Pure: whoever waits reads the clock and the state (base/system/wait_world.h, agent/system/world.h) and says what it
 * saw. No allocation, no system call, async-signal-safe.
 */
#ifndef SCRY_SHM_WAITS_H
#define SCRY_SHM_WAITS_H

#include <stdbool.h>
#include <stdint.h>

#define WAITS_NS_PER_MS UINT64_C(1000000)
#define WAITS_FOREVER UINT32_MAX

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
    [WAIT_OBSERVED] = {2000, 200, 0, 2, 0, 0, 50, 50},
    [WAIT_STEP] = {2000, 0, 0, 1, 0, 0, 5, 0},   /* it may be no job: nothing is known of it yet */
    [WAIT_PARTS] = {3000, 0, 0, 1, 0, 0, 20, 0}, /* of one whose node has died nothing comes any more */
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
