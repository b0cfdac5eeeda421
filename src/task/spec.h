/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_TASK_SPEC_H
#define SCRY_TASK_SPEC_H

#include "base/data/buf.h"
#include "base/data/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * What a task is: a program, what to collect of it, and where it is to run (doc/howto/tasks.md). It is one JSON object,
 * task.json, which people, scripts and pages write: it is read strictly, by one table of its members. What is left out
 * gets its default, so that readers of a checked one find every member, of the right type and within its limits.
 *
 * Texts are only texts: names like "<script>" or with line feeds are kept, and escaped by whoever shows them.
 */

enum { TASK_TEXT_BYTES = 1 << 20 /* of task.json, at most */, TASK_FILE_NAME_BYTES = 200 };

/* Checks a task. *ret_spec: a new reference to the whole one. 0, -EINVAL (err: which member, what was expected, and what
 * was there), or -ENOMEM. `given` is borrowed. */
int task_spec_check(const json_t *given, json_t **ret_spec, struct err *err);

/* The same for one that is to be made: it does not ask for what its way to launch does not do, and what is handed on to scry
 * run is read as that does. What was made before these rules is checked without them, and stays readable. */
int task_spec_check_new(const json_t *given, json_t **ret_spec, struct err *err);

/* Of a checked one, by the path of the member: "limits.seconds". A text may be NULL where the member may be null. */
const char *task_text(const json_t *spec, const char *member);
uint64_t task_number(const json_t *spec, const char *member);
bool task_flag(const json_t *spec, const char *member);
json_t *task_member(const json_t *spec, const char *member); /* borrowed */

/* May a file of a task be called so? One part of a path, not hidden, no option, printable. -EINVAL with err. */
int task_file_name_check(const char *name, struct err *err);

/* The `scry submit` that makes the same task again, as a line for a shell. */

/* Of a checked task. `files`: the directory that has its files; NULL: they are where it is typed. It is of that task alone, also
 * if it is one of a series. */
void task_command(struct buf *out, const json_t *spec, const char *files);

#endif
