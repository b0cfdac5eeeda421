/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The performance analysis extension: counters (token pa_c_...) and timers (pa_t_...), the distributed tool extension
 * that the specification's example 5.3.1 uses. Both live in cells, so that the actions can be lowered: a conditional
 * request with only these actions costs no trip to the monitor.
 *
 * A timer counts the time between start and stop, summed up, in seconds. Starting a running one and stopping a stopped
 * one change nothing. Inside a conditional request the time is the event's.
 */
#include <stdlib.h>

#include <scry/ext.h>

/* ---- counters ---- */

struct counter {
    int cell;
};

static void counter_free(void *data)
{
    struct counter *counter = data;
    scry_cell_free(counter->cell);
    free(counter);
}

static void pa_counter_create(struct scry_call *call)
{
    struct counter *counter = calloc(1, sizeof *counter);
    int cell = counter ? scry_cell_new() : -1;
    if (cell < 0) {
        free(counter);
        scry_fail(call, NULL, OMIS_NO_MEMORY, "there is no room for another counter");
        return;
    }
    counter->cell = cell;
    struct scry_object *object = scry_object_new(call, "pa_c", counter);
    if (!object) {
        counter_free(counter);
        scry_fail(call, NULL, OMIS_NO_MEMORY, "out of memory");
        return;
    }
    scry_result(call, NULL, "%s", scry_object_token(object));
}

static struct counter *counter_at(struct scry_call *call, size_t index)
{
    return scry_object_data(scry_object_at(call, index));
}

static void pa_counter_add(struct scry_call *call)
{
    for (size_t i = 0; i < scry_object_count(call); i++) {
        scry_cell_add(counter_at(call, i)->cell, scry_arg_integer(call, 1));
        scry_ok(call, scry_object_at(call, i));
    }
}

static int pa_counter_add_lower(struct scry_call *call, struct scry_code *code)
{
    for (size_t i = 0; i < scry_object_count(call); i++)
        if (scry_lower_add(code, counter_at(call, i)->cell, call, 1) < 0)
            return -1;
    return 0;
}

static void pa_counter_read(struct scry_call *call)
{
    for (size_t i = 0; i < scry_object_count(call); i++)
        scry_result_integer(call, scry_object_at(call, i), scry_cell_get(counter_at(call, i)->cell));
}

static void pa_counter_reset(struct scry_call *call)
{
    for (size_t i = 0; i < scry_object_count(call); i++) {
        scry_cell_set(counter_at(call, i)->cell, 0);
        scry_ok(call, scry_object_at(call, i));
    }
}

/* ---- timers ---- */

#define SECONDS_LIMIT 1e9 /* of one pa_timer_add: 30 years */
enum { READ_TRIES = 100 };

struct timer {
    int started, total; /* cells, in nanoseconds; started 0: it stands */
    int64_t most;       /* that was read of it */
};

static void timer_free(void *data)
{
    struct timer *timer = data;
    scry_cell_free(timer->started);
    scry_cell_free(timer->total);
    free(timer);
}

static void pa_timer_create(struct scry_call *call)
{
    struct timer *timer = calloc(1, sizeof *timer);
    struct scry_object *object = NULL;
    if (timer) {
        timer->most = INT64_MIN;
        timer->started = scry_cell_new();
        timer->total = scry_cell_new();
        if (timer->started >= 0 && timer->total >= 0)
            object = scry_object_new(call, "pa_t", timer);
    }
    if (!object) {
        if (timer)
            timer_free(timer);
        scry_fail(call, NULL, OMIS_NO_MEMORY, "there is no room for another timer");
        return;
    }
    scry_result(call, NULL, "%s", scry_object_token(object));
}

static struct timer *timer_at(struct scry_call *call, size_t index)
{
    return scry_object_data(scry_object_at(call, index));
}

static int64_t call_ns(struct scry_call *call)
{
    return (int64_t)(scry_call_time(call) * 1e9);
}

static void pa_timer_start(struct scry_call *call)
{
    for (size_t i = 0; i < scry_object_count(call); i++) {
        struct timer *timer = timer_at(call, i);
        if (!scry_cell_get(timer->started))
            scry_cell_set(timer->started, call_ns(call));
        scry_ok(call, scry_object_at(call, i));
    }
}

static int pa_timer_start_lower(struct scry_call *call, struct scry_code *code)
{
    for (size_t i = 0; i < scry_object_count(call); i++)
        if (scry_lower_timer_start(code, timer_at(call, i)->started) < 0)
            return -1;
    return 0;
}

static void pa_timer_stop(struct scry_call *call)
{
    for (size_t i = 0; i < scry_object_count(call); i++) {
        struct timer *timer = timer_at(call, i);
        int64_t started = scry_cell_get(timer->started);
        if (started) {
            scry_cell_set(timer->started, 0);
            scry_cell_add(timer->total, call_ns(call) - started);
        }
        scry_ok(call, scry_object_at(call, i));
    }
}

static int pa_timer_stop_lower(struct scry_call *call, struct scry_code *code)
{
    for (size_t i = 0; i < scry_object_count(call); i++)
        if (scry_lower_timer_stop(code, timer_at(call, i)->started, timer_at(call, i)->total) < 0)
            return -1;
    return 0;
}

/* Seconds to add, for intervals measured elsewhere. */
static void pa_timer_add(struct scry_call *call)
{
    double seconds = scry_arg_floating(call, 1);
    if (!(seconds > -SECONDS_LIMIT && seconds < SECONDS_LIMIT)) {
        scry_fail(call, NULL, OMIS_PARAMETER_ERROR, "seconds: must be between -%.0f and %.0f", SECONDS_LIMIT,
                  SECONDS_LIMIT);
        return;
    }
    for (size_t i = 0; i < scry_object_count(call); i++) {
        scry_cell_add(timer_at(call, i)->total, (int64_t)(seconds * 1e9));
        timer_at(call, i)->most = INT64_MIN;
        scry_ok(call, scry_object_at(call, i));
    }
}

/* Threads stop it meanwhile: both cells are of one moment when neither changed while they were read. */
static int64_t timer_sum(const struct timer *timer, int64_t now)
{
    int64_t started, total;
    int tries = 0;
    do {
        started = scry_cell_get(timer->started);
        total = scry_cell_get(timer->total);
    } while ((scry_cell_get(timer->started) != started || scry_cell_get(timer->total) != total) &&
             ++tries < READ_TRIES);
    return started && now > started ? total + (now - started) : total;
}

/* The sum in seconds; of a running timer up to now. It may be stopped by an event that is older than this and whose
 * actions come later: then it stands at what was read until that is reached. */
static void pa_timer_read(struct scry_call *call)
{
    for (size_t i = 0; i < scry_object_count(call); i++) {
        struct timer *timer = timer_at(call, i);
        int64_t sum = timer_sum(timer, call_ns(call));
        timer->most = sum > timer->most ? sum : timer->most;
        scry_result_floating(call, scry_object_at(call, i), (double)timer->most / 1e9);
    }
}

static void pa_timer_reset(struct scry_call *call)
{
    for (size_t i = 0; i < scry_object_count(call); i++) {
        struct timer *timer = timer_at(call, i);
        scry_cell_set(timer->total, 0);
        timer->most = INT64_MIN;
        if (scry_cell_get(timer->started))
            scry_cell_set(timer->started, call_ns(call));
        scry_ok(call, scry_object_at(call, i));
    }
}

/* ---- both ---- */

static void pa_delete(struct scry_call *call)
{
    for (size_t i = 0; i < scry_object_count(call); i++) {
        struct scry_object *object = scry_object_at(call, i);
        scry_ok(call, object);
        scry_object_destroy(object);
    }
}

#define COUNTERS "token<pa_c>* counter_list"
#define TIMERS "token<pa_t>* timer_list"

static const struct scry_service services[] = {
    {"pa_counter_create", SCRY_MANIPULATION, "-> token", SCRY_OPTIONAL, pa_counter_create, "Create a counter, 0."},
    {"pa_counter_add", SCRY_MANIPULATION, COUNTERS ", integer value -> void", SCRY_OPTIONAL, pa_counter_add,
     "Add to counters.", .lower = pa_counter_add_lower},
    {"pa_counter_read", SCRY_INFORMATION, COUNTERS " -> integer", SCRY_OPTIONAL, pa_counter_read,
     "The values of counters."},
    {"pa_counter_reset", SCRY_MANIPULATION, COUNTERS " -> void", SCRY_OPTIONAL, pa_counter_reset, "Set counters to 0."},
    {"pa_counter_delete", SCRY_MANIPULATION, COUNTERS " -> void", SCRY_OPTIONAL, pa_delete, "Delete counters."},
    {"pa_timer_create", SCRY_MANIPULATION, "-> token", SCRY_OPTIONAL, pa_timer_create,
     "Create a timer, 0 and standing."},
    {"pa_timer_start", SCRY_MANIPULATION, TIMERS " -> void", SCRY_OPTIONAL, pa_timer_start, "Start timers.",
     .lower = pa_timer_start_lower},
    {"pa_timer_stop", SCRY_MANIPULATION, TIMERS " -> void", SCRY_OPTIONAL, pa_timer_stop, "Stop timers.",
     .lower = pa_timer_stop_lower},
    {"pa_timer_add", SCRY_MANIPULATION, TIMERS ", floating<s> seconds -> void", SCRY_OPTIONAL, pa_timer_add,
     "Add seconds to timers."},
    {"pa_timer_read", SCRY_INFORMATION, TIMERS " -> floating<s>", SCRY_OPTIONAL, pa_timer_read,
     "The sums of timers, in seconds."},
    {"pa_timer_reset", SCRY_MANIPULATION, TIMERS " -> void", SCRY_OPTIONAL, pa_timer_reset,
     "Set the sums of timers to 0."},
    {"pa_timer_delete", SCRY_MANIPULATION, TIMERS " -> void", SCRY_OPTIONAL, pa_delete, "Delete timers."},
};

__attribute__((visibility("default"))) int pa_register(void);

int pa_register(void)
{
    if (scry_register_class("pa_c", counter_free, "counter") < 0 ||
        scry_register_class("pa_t", timer_free, "timer") < 0)
        return -1;
    for (size_t i = 0; i < sizeof services / sizeof *services; i++)
        if (scry_register_service(&services[i]) < 0)
            return -1;
    return 0;
}
