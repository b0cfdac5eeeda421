/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hottest functions of a running job, for scry top: asked of the monitor, over all traced processes that live.
 * Never waited for while the picture is live. Where there is no monitor, or nothing is traced, the list is empty.
 */
#ifndef SCRY_CLI_TOP_FUNCTIONS_H
#define SCRY_CLI_TOP_FUNCTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>
#include <omis.h>

#include "jobdir/record/model.h"
#include "jobdir/report/functions.h"

struct top_function {
    char *name, *file;
    uint64_t line, calls, total_ns, self_ns, min_ns, max_ns; /* min_ns > max_ns: not known */
};

struct top_functions {
    bool connected, asking;
    uint64_t again_ns; /* no try to connect before */
    pid_t *attached;   /* processes that were given to the monitor, sorted */
    size_t attached_count;
    struct top_function *list; /* most time of their own first */
    size_t count;
    uint64_t self_ns; /* of all together */
};

/* Connects to the monitor that runs, if one does and none is connected; to be called again and again, for it may be
 * about to be started, or to be started anew. Why it failed: client_error(). */
void top_functions_connect(struct top_functions *functions);
void top_functions_close(struct top_functions *functions);

/* Asks for the functions of the job's processes, unless that is under way. */
void top_functions_ask(struct top_functions *functions, const struct job_model *model);
int top_functions_fd(const struct top_functions *functions); /* readable: call top_functions_handle; -1: none */
void top_functions_handle(struct top_functions *functions);
/* Until they are there, and what else was asked on the same connection, at most so long. false: it took longer. */
bool top_functions_wait(struct top_functions *functions, const bool *also_asking, int timeout_ms);

/* Of a job that has ended, instead: those of its traces. NULL, or not all of them: none. */
void top_functions_final(struct top_functions *functions, const struct job_functions *all);

#endif
