/* SPDX-License-Identifier: Apache-2.0 */
/* Takes job directories into the record. A job that runs may be taken again: what is there is not taken twice. */
#ifndef SCRY_STORE_IMPORT_H
#define SCRY_STORE_IMPORT_H

#include "store/store.h"

/* Its records, small files and description; flushed. 0 or -errno with err: what was stored before stays. */
int import_job(struct store *store, const char *path, struct stored_job **ret_job, struct err *err);

#endif
