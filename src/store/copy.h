/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_STORE_COPY_H
#define SCRY_STORE_COPY_H

#include "store/store.h"

/* Makes a mirror (jobdir/record/mirror.h) of a job from the record, so that all that shows job directories shows it. */

/* `whole`: with records and files; else only job.json and remote.json, for lists. The path of the mirror; 0 or -errno
 * with err. */
int fetch_job(struct store *store, const struct store_found *found, bool whole, char *ret_path, size_t size,
              struct err *err);

/* Takes job directories into the record. A job that runs may be taken again: what is there is not taken twice. */

/* Its records, small files and description; flushed. 0 or -errno with err: what was stored before stays. */
int import_job(struct store *store, const char *path, struct stored_job **ret_job, struct err *err);

#endif
