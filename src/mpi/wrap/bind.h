/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_MPI_WRAP_BIND_H
#define SCRY_MPI_WRAP_BIND_H

#include <link.h>
#include <stdbool.h>

/*
 * Calls are caught where they leave an object: its relocation slots of MPI_ and PMPI_ names are made to point to the
 * wrappers (wrap.h). Nothing is known before the program runs, lookup order stays as it is, and a slot is only changed
 * where it is certain what its owner would have called without us:
 *
 * - What a name leads to (`real`) is the first definition in the program's lookup order: the program's own PMPI tool,
 * or the MPI library. Of PMPI_ names it must be in the MPI library.
 * - A slot that the dynamic linker has filled is changed if it holds just that; a lazy one, which is still filled with
 *   its object's own code, if the linker would fill in just that. All others stay: those of another MPI library, of
 *   objects that bind to themselves, pointers that the program has changed.
 * - Never those of the MPI library and its plugins: what it calls itself is not the user's.
 *
 * Slots are never put back: the wrappers stay loaded to the end.
 */

struct mpi_host;

/* `host` must outlive it. NULL, or why it is not certain which MPI the program calls. */
const char *bind_start(const struct mpi_host *host);
/* As dlsym (`handle` is not used): PMPI_ names in the MPI library, others in the program's lookup order. */
void *bind_find(void *handle, const char *name);
/* Changes the slots of all objects that were loaded since. */
void bind_look(void);
/* The wrapper for what dlsym found, or `found` itself. */
void *bind_symbol(const char *name, void *found);

#endif
