/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A monitor for the unit tests of libomis: a thread that listens on a socket of its own and plays a part written by the
 * test, well-behaved or not. A part that sees something unexpected prints it and aborts the test program.
 */
#ifndef SCRY_CLIENT_TEST_MONITOR_H
#define SCRY_CLIENT_TEST_MONITOR_H

#include <stdbool.h>
#include <stdint.h>

#include <omis.h>

#include "base/data/buf.h"
#include "wire/frame.h"

#define CHECK(condition) \
    do { \
        if (!(condition)) \
            test_monitor_failed(__FILE__, __LINE__, #condition); \
    } while (0)

_Noreturn void test_monitor_failed(const char *file, int line, const char *what);

struct test_monitor;
typedef void part_fn(struct test_monitor *monitor);

enum { TEST_TOOL_ID = 77 };

/* Starts to listen; the part runs after HELLO and WELCOME were exchanged. */
struct test_monitor *test_monitor_start(part_fn *part);

/* The same, but the part begins when a connection was accepted and greets (or not) itself. */
struct test_monitor *test_monitor_start_rude(part_fn *part);

/* Waits for the end of the part and removes the socket. */
void test_monitor_stop(struct test_monitor *monitor);

/* For cmocka's teardown: after a test that failed half-way, ends the tool's session and removes the socket. */
int test_monitor_teardown(void **state);

/* omis_init with this monitor; the options given are appended. */
Omis_status test_monitor_connect(struct test_monitor *monitor, void (*error_handler)(Omis_reply reply), int *tool_id);
const char *test_monitor_path(const struct test_monitor *monitor);

/* ---- for parts ---- */

int part_fd(struct test_monitor *monitor);
struct frame part_read(struct test_monitor *monitor, enum frame_type type); /* the next frame, which must be that */
uint32_t part_request(struct test_monitor *monitor, const char *text, Omis_flags *ret_flags); /* returns its id */
bool part_nothing_comes(struct test_monitor *monitor);                                        /* at this moment */
void part_read_end(struct test_monitor *monitor);                                             /* the tool closes */

struct part_result {
    int service; /* 0, 1, ...; results of one service stand together */
    const char *objects;
    Omis_status status;
    const char *text;
};

/* Sends FRAME_REPLY or FRAME_ERROR with these results (the list ends with objects == NULL). */
void part_reply(struct test_monitor *monitor, enum frame_type type, uint8_t flags, uint32_t id,
                const struct part_result *results);
void part_frame(struct test_monitor *monitor, enum frame_type type, uint8_t flags, uint32_t id, struct span payload);
void part_send(struct test_monitor *monitor, struct span bytes);
void part_close(struct test_monitor *monitor);
void part_finalize(struct test_monitor *monitor); /* reads FINALIZE, answers, and sees the tool close */

/* A meeting of test and part: both call, both go on. */
void test_monitor_meet(struct test_monitor *monitor);

#define RESULTS(...) ((const struct part_result[]){__VA_ARGS__, {0, NULL, 0, NULL}})
#define OK_REPLY(text_) RESULTS({0, "", OMIS_OK, NULL}, {1, "", OMIS_OK, text_})

#endif
