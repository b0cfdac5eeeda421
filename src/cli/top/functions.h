/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hottest functions of a running job, for scry top: from the monitor, over all traced processes that live. The live
 * picture never waits for it. Without a monitor, or if nothing is traced, the list is empty.
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
    uint64_t again_ns; /* do not connect before */
    pid_t *attached;   /* processes that the monitor knows, sorted */
    size_t attached_count;
    struct top_function *list; /* by their own time, most first */
    size_t count;
    uint64_t self_ns; /* of all together */
};

/* Connects to a running monitor if there is no connection. Call it again and again: a monitor may be starting.
 * client_error() says why it failed. */
void top_functions_connect(struct top_functions *functions);
void top_functions_close(struct top_functions *functions);

/* Asks for the functions of the job's processes, unless a request is under way. */
void top_functions_ask(struct top_functions *functions, const struct job_model *model);
int top_functions_fd(const struct top_functions *functions); /* readable: call top_functions_handle; -1: none */
void top_functions_handle(struct top_functions *functions);
/* Waits for the functions, and for `also_asking`, at most timeout_ms. false: it took longer. */
bool top_functions_wait(struct top_functions *functions, const unsigned *also_asking, int timeout_ms);

/* For a job that has ended: its functions from the traces. `all` NULL or incomplete: none. */
void top_functions_final(struct top_functions *functions, const struct job_functions *all);

#endif
