/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of `scry run`: one table, read from the command line, the environment (SCRY_NAME) and a file (--config),
 * in this order of precedence.
 */
#ifndef SCRY_JOB_OPTIONS_H
#define SCRY_JOB_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

struct run_options {
    char **command; /* borrowed from argv, NULL-terminated */
    const char *dir, *name, *config;
    bool quiet, crash_stack, help;
    double sample_seconds;
    uint64_t max_bytes;
    uint64_t given;      /* bits of the table's rows that have a value */
    struct arena memory; /* of values that came from the file */
};

/* 0; or -errno with err for people. */
int run_options_parse(struct run_options *ret_options, int argc, char **argv, struct err *err);
void run_options_done(struct run_options *options);

/* The options, one a line, for --help. */
void run_options_help(struct buf *out);

/* "512", "64K", "1.5G", "2 GB": binary multiples. */
bool size_parse(const char *text, uint64_t *ret_bytes);

#endif
