/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where glibc has what in its descriptor of a thread, which is where pthread_t points to: it tells debuggers (nptl_db).
 * Of our own C library; that of another process may be another one, so compare what is found there.
 */
#ifndef SCRY_BASE_SYSTEM_PTHREAD_FIELDS_H
#define SCRY_BASE_SYSTEM_PTHREAD_FIELDS_H

#include <stdint.h>

enum { PTHREAD_DESCRIPTOR_MOST = 4096 }; /* all fields are within these bytes */

/* Offset in bytes of "_thread_db_pthread_tid" and the like; 0: not known. */
uint32_t pthread_field(const char *name);

#endif
