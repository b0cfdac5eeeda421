/* SPDX-License-Identifier: Apache-2.0 */
/* For the unit tests of this room: an engine with the built-in services and sessions that keep their replies. */
#ifndef SCRY_MONITOR_ENGINE_TEST_SUPPORT_H
#define SCRY_MONITOR_ENGINE_TEST_SUPPORT_H

#include <sys/types.h>

#include "base/system/loop.h"
#include "monitor/engine/execute.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/tool.h"

struct test_reply {
    uint32_t id;
    bool last;
    Omis_reply reply;
    struct test_reply *next;
};

struct test_session {
    struct session session;
    uint32_t last_id;
    struct test_reply *replies; /* not taken yet, oldest first */
};

extern struct monitor *test_monitor;
extern struct loop *test_loop;

int test_engine_start(void **state);
int test_engine_stop(void **state);
/* Adds the services of an extension that is linked with the test. 0 or -1. */
int test_engine_extend(const char *prefix, int (*register_all)(void));

struct test_session *test_open(struct test_session *other); /* NULL: as a tool of its own */
/* Of a session that was just opened as a tool of its own. */
void test_confine(struct test_session *session, unsigned rights, const char *job);
void test_close(struct test_session *session);

/* Sends a request and returns its number. */
uint32_t test_send(struct test_session *session, uint32_t flags, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The oldest reply, which is freed with the next one that is taken; fails the test if there is none. */
const struct test_reply *test_take(struct test_session *session);

/* Sends an unconditional request and returns its reply as text, "STATUS[objects]=result; ..." for each action. */
const char *test_ask(struct test_session *session, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A reply as text: "OMIS_OK p_1_1=...; ...", the actions separated by " | ". In a static buffer. */
const char *test_text(const struct test_reply *reply);

/* The oldest reply as text. */
const char *test_next(struct test_session *session);

/* Defines a request, whose token this will be, and enables it; its number. The reply that it is enabled comes next. */
uint32_t test_install(struct test_session *session, uint32_t flags, const char *token, const char *text);

/* The same, of which it takes the replies that say so. */
enum { QUIET = OMIS_DONT_RETURN_OK | OMIS_DONT_RETURN_EN_DIS };
void test_enable(struct test_session *session, uint32_t flags, const char *token, const char *text);

/* Fails the test if `text` does not have `part`. */
void test_has_text(const char *text, const char *part);

/* A child of this program that does nothing, with as many threads; ended by test_engine_stop. */
pid_t test_child(unsigned threads);

#endif
