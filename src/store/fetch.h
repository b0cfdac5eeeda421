/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a mirror (jobdir/record/mirror.h) of a job from the record, so that all that shows job directories shows it. */
#ifndef SCRY_STORE_FETCH_H
#define SCRY_STORE_FETCH_H

#include "store/store.h"

/* `whole`: with records and files; else only job.json and remote.json, for lists. The path of the mirror; 0 or -errno
 * with err. */
int fetch_job(struct store *store, const struct store_found *found, bool whole, char *ret_path, size_t size,
              struct err *err);

#endif
