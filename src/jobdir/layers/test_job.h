/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of what is said of a job that failed: a model, and records that are put into it. */
#ifndef SCRY_JOBDIR_LAYERS_TEST_JOB_H
#define SCRY_JOBDIR_LAYERS_TEST_JOB_H

#include <jansson.h>

#include "base/data/notes.h"
#include "jobdir/record/model.h"

extern struct job_model model; /* empty at the start of each test */

#define ROW(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
int set_up(void **state);
int tear_down(void **state);

/* Takes the record. */
void put(json_t *record);
#define PUT(...) put(json_pack(__VA_ARGS__))
void put_warning(double seconds, struct note note);
void put_matched(double seconds, const char *pattern, const char *level, const char *text);
void put_log(double seconds, const char *level, const char *text);
void put_disk_of(double seconds, const char *path, int total, int left);
void put_disk(double seconds, int total, int left);
void put_exception_of(double seconds, int pid, int tid, const char *name, const char *message);
void put_exception(double seconds, int pid, const char *name, const char *message);
void put_failure(double seconds, int pid, int line, int status);

/* The job of all tests: at 100 s its command, pid 10, ended with 1 because its child 20 did. A new reference. */
json_t *chain_of(const char *text);
#define TWO \
    "[{\"pid\": 20, \"name\": \"worker\", \"end_seconds\": 99.9, \"exit_code\": 1, \"signal\": null}," \
    " {\"pid\": 10, \"name\": \"bash\", \"end_seconds\": 100, \"exit_code\": 1, \"signal\": null}]"
#define KILLED \
    "[{\"pid\": 20, \"name\": \"worker\", \"end_seconds\": 99.9, \"exit_code\": null, \"signal\": 9}," \
    " {\"pid\": 10, \"name\": \"bash\", \"end_seconds\": 100, \"exit_code\": 137, \"signal\": null}]"
#define ONE "[{\"pid\": 10, \"name\": \"a.out\", \"end_seconds\": 100, \"exit_code\": 1, \"signal\": null}]"

#endif
