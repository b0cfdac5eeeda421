/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files that processes share with us, and the folder that they are in (agent_files.c).
 */
#ifndef SCRY_MONITOR_RECORDER_AGENT_FILES_H
#define SCRY_MONITOR_RECORDER_AGENT_FILES_H

#include "monitor/recorder/agent.h"

#define AREA_MPI_PREFIX "mpi-"

/* Where areas and the doorbell are. */
int agent_rings_open(struct agents *agents, struct err *err);
/* Likewise where something of it is missing, or everything: the runtime directory is another one. */
int agent_rings_again(struct agents *agents, bool moved, struct err *err);
void agent_rings_close(struct agents *agents); /* nothing stays unless it is of use to the next monitor */
void agent_rings_each(struct agents *agents, void (*fn)(void *ctx, const char *folder, const char *name), void *ctx);
bool agent_rings_in_memory(const struct agents *agents, const char *folder);

typedef int area_fill_fn(struct agent *agent, void *ctx);
/* Makes the file and fills it; where there is no room in memory, once more on disk. 0 or -errno; -ENOMEM: the job's
 * limit of memory leaves no room. */
int area_file_make(struct agent *agent, enum area_kind kind, area_fill_fn *fill, void *ctx);
/* Allocates memory for a part of it. -ENOMEM or -ENOSPC if there is none, or if it could harm the job. */
int area_file_reserve(struct agents *agents, struct area_file *file, uint64_t from, uint64_t size);
/* How many of so many bytes of its area the program may have by itself, later. They have an account of their own: what is
 * promised and not used keeps nobody from area_file_reserve, which counts it when it is there. */
uint64_t area_file_promise(const struct agent *agent, struct area_file *file, uint64_t bytes);
void area_file_promised(struct agents *agents, struct area_file *file, uint64_t bytes); /* before, by another monitor */
void area_file_kept(struct agents *agents, struct area_file *file, uint64_t bytes);     /* they are reserved by now */
void area_file_give_back(struct agents *agents, struct area_file *file);                /* frees all its memory */
void area_file_end(struct agents *agents, struct area_file *file);                      /* removes and closes it */
void area_file_leave(struct agents *agents, struct area_file *file); /* closes it, for the next monitor to find */
const char *area_numbers(const char *name);                          /* PID-STARTTICKS-SERIAL of its name */
void area_file_remove(const char *path);                             /* with its sidecar */

#endif
