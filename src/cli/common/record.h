/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that are over and whose directories are gone, from the record (scry record): scry-record makes mirrors of them. */
#ifndef SCRY_CLI_COMMON_RECORD_H
#define SCRY_CLI_COMMON_RECORD_H

#include <stddef.h>

#include "base/data/err.h"

/* 0; -ENOENT: there is no record, or it has no such job; others: it could not be read, and it has said why. */
int record_fetch(const char *job, char *ret_path, size_t size, struct err *err);
/* Adds the jobs of the record that the list does not have, and sorts it by their ids. As jobdir_list. */
int record_add(char ***paths, size_t *count, struct err *err);

#endif
