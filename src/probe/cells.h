/* SPDX-License-Identifier: Apache-2.0 */
/* Cells: 64-bit numbers in memory shared with the tracer and the agents, where lowered actions keep their results. */
#ifndef SCRY_PROBE_CELLS_H
#define SCRY_PROBE_CELLS_H

#include "shm/code.h"

struct cell_memory;

int cells_new(struct cell_memory **ret_cells); /* 0 or -errno */
/* Moves the cells into the file `path`, which is made if needed. Programs that got cells in this file from an earlier
 * monitor then count for this one. Existing cells keep value and address. 0, or -errno with nothing changed. */
int cells_keep(struct cell_memory *cells, const char *path);
void cells_free(struct cell_memory *cells);
int cells_fd(const struct cell_memory *cells);
int cell_new(struct cell_memory *cells); /* index, or -1 when all are used */
void cell_free(struct cell_memory *cells, int cell);
code_cell *cell_at(struct cell_memory *cells, int cell); /* NULL if the index is not one */

#endif
