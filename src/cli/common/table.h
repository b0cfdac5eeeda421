/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table for a terminal: columns as wide as their contents, with a heading. A narrow terminal omits some, so that the last
 * column stays visible; that is cut off at the terminal's edge. Further lines may stand below a row.
 */
#ifndef SCRY_CLI_COMMON_TABLE_H
#define SCRY_CLI_COMMON_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/data/buf.h"

enum { TABLE_COLUMNS = 8 };

struct table_column {
    const char *title;
    bool number; /* at the right */
    bool if_any; /* left out where no row has something in it */
    int omitted; /* on a narrow terminal: 1 first, then 2 ...; 0: never */
    int least;   /* room that the last column is to have at least, in characters; it may need more */
    bool words;  /* the last column: text, which is cut at its end; else it is cut in the middle */
};

struct table_row {
    struct buf cells[TABLE_COLUMNS]; /* without control characters */
    struct buf below;
};

struct table {
    const struct table_column *columns; /* up to TABLE_COLUMNS; ends with {0} */
    size_t width;                       /* of the terminal, in characters */
    struct table_row *rows;
    size_t count, room;
    size_t widths[TABLE_COLUMNS]; /* of the pieces that were put */
    bool put;
};

/* The next row, empty. NULL: out of memory. What was returned before is not valid any more. */
struct table_row *table_add(struct table *table);
/* The rows that there are, which are gone then: long tables are put in pieces, the titles with the first, and columns may get
 * wider from one to the next. */
void table_put(struct buf *out, struct table *table);
void table_done(struct table *table);

#endif
