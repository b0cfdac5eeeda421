/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symbols of one object of the process, by its own hash table: no lock, no memory, no error that dlerror would give the
 * program. (A link map is no handle for dlsym unless that very object was opened.)
 */
#ifndef SCRY_MPI_WRAP_LOOKUP_H
#define SCRY_MPI_WRAP_LOOKUP_H

#include <link.h>

/* What the object itself defines by that name, or NULL. */
void *lookup_in(const struct link_map *map, const char *name);
/* What stands in it for a function of others by that name, or NULL: an entry in its procedure linkage table. */
void *lookup_stands_for(const struct link_map *map, const char *name);

#endif
