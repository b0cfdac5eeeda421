/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scry run as a tool of the monitor: follows the job through the services node_get_info and job_*. One request a
 * sample, never waited for: while the monitor is slow, stopped or dead, the job and its supervision go on. When the
 * monitor died it is started again, attached to again, and the time between is recorded as a gap.
 */
#ifndef SCRY_JOB_WATCH_H
#define SCRY_JOB_WATCH_H

#include <limits.h>
#include <omis.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "job/options.h"
#include "job/recorder.h"
#include "job/rules.h"
#include "job/stacks.h"
#include "job/tracing.h"

enum watch_phase {
    WATCH_OFF,      /* no connection: tried again after a while */
    WATCH_CREATING, /* job_create is under way */
    WATCH_SETTING,  /* the settings of tracing are under way */
    WATCH_IDLE,     /* followed; nothing asked */
    WATCH_ASKING,   /* a sample is under way */
    WATCH_TRACES,   /* the state of the traces is under way */
};

struct watch {
    enum watch_phase phase;
    struct recorder *recorder; /* borrowed */
    const char *dir;           /* of the job; borrowed */
    pid_t root;
    bool crash_stack;                  /* backtraces are wanted */
    const struct run_options *options; /* settings and rules; borrowed */
    struct rules rules;
    struct err refused;       /* why the monitor does not take the first setting or rule that it does not */
    struct trace_info traces; /* as last told */
    void (*changed)(void *ctx, const char *key, const char *value); /* scry set was used on the job */
    void *ctx;
    char changes[PATH_MAX + 96]; /* the request that tells of it */
    char stalls[PATH_MAX + 128]; /* the one that tells of MPI programs that do not go on */
    struct stacks stacks;
    char token[64];
    uint64_t cursor;
    uint64_t asked_ns;    /* when the request under way was sent */
    uint64_t answered_ns; /* when something was last heard: where a gap starts */
    uint64_t retry_ns;    /* when to connect again */
    unsigned tries;       /* that failed, one after the other */
    uint64_t page_bytes;
    uint64_t coming; /* processes that were not told yet, or whose end was not */
    uint64_t lost;   /* process records, as far as this monitor said; of earlier monitors in lost_before */
    uint64_t lost_before;
    uint64_t unseen, unclocked_ns; /* as this monitor said: service/job/follow.h */
    bool node_known, was_up, gap_open;
    bool fresh; /* nothing was heard yet from this monitor */
    char lost_why[256];
    char hangs[256];  /* why the monitor gives no answer, when it was waited for the last time in vain; "": it does */
    Omis_reply reply; /* came, not yet looked at */
};

/* Connects, starting the monitor if need be. 0 or -errno with err: the job is then run unwatched. */
int watch_connect(struct watch *watch, struct err *err);
/* Starts following the (held) process; WATCH_CREATING. */
void watch_create(struct watch *watch);
/* Asks for a sample unless one is under way; connects again where that is due. */
void watch_tick(struct watch *watch);
/* Asks how far the traces are; the answer is in `traces`. flush: statistics of MPI are to be written for processes that
 * live on, too. */
void watch_ask_traces(struct watch *watch, bool flush);
/* To be called when watch_fd() is readable, and after each of the above. */
void watch_handle(struct watch *watch);
int watch_fd(const struct watch *watch); /* -1: none */
/* Waits (at most timeout_ms) until what was asked is answered; false if it is not. */
bool watch_wait(struct watch *watch, int timeout_ms);
void watch_close(struct watch *watch);

#endif
