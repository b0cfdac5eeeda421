/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a batch system says of its job to the job itself: in environment variables, HTCondor in a file. A row of the table
 * in batch.c is a batch system.
 */
#ifndef SCRY_JOB_RECORD_BATCH_H
#define SCRY_JOB_RECORD_BATCH_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

/* What there is of a variable, as getenv; valid until the next call. */
typedef const char *batch_get(void *ctx, const char *name);

/* The member "batch" of job.json (jobdir/record/info.h), of the job of this process. A new reference; NULL: there is no
 * batch system, or no memory. `ret_name` is the name that the job was submitted with, "" if none is known. */
json_t *batch_read(char *ret_name, size_t size);

/* The same of any environment. HTCondor's file is read if `get` says where it is. */
json_t *batch_json(batch_get *get, void *ctx, char *ret_name, size_t size);

/* A line `NAME = value` of HTCondor's description of a job (a ClassAd, as `condor_q -l` prints it), without quotes.
 * false: there is none, or it does not fit. The name's case does not matter. */
bool batch_ad_value(const char *ad, const char *name, char *ret_value, size_t size);

#endif
