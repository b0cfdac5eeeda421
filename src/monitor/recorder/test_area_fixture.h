/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A monitor for tests of what it shares with processes (shm/area.h, shm/mpi_area.h): its directories, its loop, and
 * children that say hello to it and do what they are told through a pipe, a letter and a number a command.
 */
#ifndef SCRY_MONITOR_RECORDER_TEST_AREA_FIXTURE_H
#define SCRY_MONITOR_RECORDER_TEST_AREA_FIXTURE_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <sys/types.h>

#include "base/system/clock.h"
#include "monitor/recorder/agents.h"
#include "monitor/engine/monitor.h"

enum { TIMEOUT_S = 30 };

extern char dir[64], job[128]; /* the runtime directory, the job's directory in it */
extern struct loop *loop;
extern struct monitor *monitor;
extern struct agents *agents;

#define step_until(condition) \
    do { \
        uint64_t end_ = clock_now_ns() + (uint64_t)TIMEOUT_S * NS_PER_SECOND; \
        while (!(condition)) { \
            assert_true(clock_now_ns() < end_); \
            loop_step(loop, 1000000); \
        } \
    } while (0)

/* ---- the monitor ---- */

/* `attach` is called each time that there are new agents; it may be NULL. */
int fixture_start(void (*attach)(void));
int fixture_stop(void **state);
/* Once more, after agents_free. */
void fixture_agents(void);
/* Files in the directory of rings whose names begin so: a pattern of grep. */
unsigned fixture_rings(const char *pattern);

/* ---- traces ---- */

char *babeltrace(void); /* what babeltrace2, which finds no fault with them, says of all traces of the job */
size_t occurrences(const char *text, const char *what);
char *process_file(pid_t pid, unsigned incarnation); /* the text of its .process */

/* ---- a child ---- */

struct child {
    pid_t pid;
    int fd;
};

struct child_command {
    char letter;
    uint32_t number;
};

/* main_: what it does. */
struct child child_new(void (*main_)(int fd));
/* In the child: does what it is told, and writes the letter back when that is done, or '!' when it could not. */
void child_serve(int fd, bool (*serve)(void *ctx, const struct child_command *command), void *ctx);
void child_send(const struct child *child, char letter, uint32_t number);
void child_heard(const struct child *child, char letter); /* the loop does not run until then */
void child_tell(const struct child *child, char letter, uint32_t number);
void child_end(struct child *child, int signo); /* 0: by 'q' */
void step_until_readable(int fd);

/* ---- what a child says to the monitor ---- */

/* exe NULL: its own program. Returns the size of what is to be sent. */
size_t hello_fill(struct agent_hello *ret_hello, uint32_t flags, const char *exe);
int hello_dial(void);
/* The answer, which has to be of `size` bytes, and its descriptors, or -1. */
bool hello_hear(int fd, void *ret_welcome, size_t size, int *ret_fds, size_t fd_count);

#endif
