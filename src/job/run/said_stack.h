/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stack that the handlers of signals of Open MPI (opal/util/stacktrace.c) and of UCX, which MPICH is built on, print when a rank crashes,
 * and which hide the crash from the kernel's log: "[node7:26537] [ 1] ./prog(+0x1175)[0x5652fe126175]". Any bytes: it stands among what
 * the job says.
 */
#ifndef SCRY_JOB_RUN_SAID_STACK_H
#define SCRY_JOB_RUN_SAID_STACK_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct said_frame {
    char module[PATH_MAX]; /* as the process knows it */
    char symbol[128];      /* that lies before it; "": none is known */
    uint64_t address;
    bool based; /* then it is known where the file lies: */
    uint64_t bias;
};

enum { SAID_FRAMES = 64 };
/* Of the last stack of this process of this node in the text (standard error has those of all), from the function in which
 * it crashed outwards. Returns how many; 0: there is none. */
size_t said_stack_parse(const char *text, size_t len, const char *host, pid_t pid,
                        struct said_frame ret_frames[SAID_FRAMES]);

#endif
