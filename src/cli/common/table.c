/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/table.h"

#include <stdlib.h>
#include <string.h>

#include "base/data/grow.h"
#include "jobdir/text/text.h"

enum { GAP = 2, LEAST_OF_LAST = 8, LAST_SHARE = 3 /* eighths */ };

struct table_row *table_add(struct table *table)
{
    if (!GROW(table->rows, table->count, table->room))
        return NULL;
    struct table_row *row = &table->rows[table->count++];
    *row = (struct table_row){0};
    return row;
}

static void free_rows(struct table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        for (size_t column = 0; column < TABLE_COLUMNS; column++)
            buf_done(&table->rows[i].cells[column]);
        buf_done(&table->rows[i].below);
    }
    table->count = 0;
}

void table_done(struct table *table)
{
    free_rows(table);
    free(table->rows);
}

static size_t width_of(const char *text)
{
    size_t width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

static const char *cell_of(const struct table_row *row, size_t column)
{
    return row->cells[column].data ? row->cells[column].data : "";
}

static size_t last_of(const struct table *table)
{
    size_t count = 0;
    while (table->columns[count].title)
        count++;
    return count - 1;
}

/* Room for the last column: what its text needs, but no more than that share. */
static size_t least_of_last(const struct table *table, size_t last)
{
    size_t most = table->width * LAST_SHARE / 8, least = (size_t)table->columns[last].least;
    for (size_t i = 0; i < table->count && table->width < TEXT_WHOLE_LINES; i++) {
        size_t width = width_of(cell_of(&table->rows[i], last));
        width = width < most ? width : most;
        least = width > least ? width : least;
    }
    return least;
}

/* The widths of all columns but the last; 0: it is left out. */
static void columns_measure(const struct table *table, size_t last, size_t ret_widths[TABLE_COLUMNS])
{
    size_t total = 0, least = least_of_last(table, last);
    for (size_t column = 0; column < last; column++) {
        size_t widest = table->widths[column];
        for (size_t i = 0; i < table->count; i++) {
            size_t width = width_of(cell_of(&table->rows[i], column));
            widest = width > widest ? width : widest;
        }
        size_t title = strlen(table->columns[column].title);
        ret_widths[column] = !widest && table->columns[column].if_any ? 0 : widest > title ? widest : title;
        total += ret_widths[column] ? ret_widths[column] + GAP : 0;
    }
    for (int turn = 1; turn <= TABLE_COLUMNS; turn++)
        for (size_t column = 0; column < last; column++)
            if (table->columns[column].omitted == turn && ret_widths[column] && total + least > table->width) {
                total -= ret_widths[column] + GAP;
                ret_widths[column] = 0;
            }
}

/* A row, or the titles: NULL. */
static void put_row(struct buf *out, const struct table *table, size_t last, const size_t widths[TABLE_COLUMNS],
                    const struct table_row *row)
{
    size_t start = out->len, used = 0;
    for (size_t column = 0; column < last; column++) {
        const char *cell = row ? cell_of(row, column) : table->columns[column].title;
        if (!widths[column])
            continue;
        if (table->columns[column].number)
            buf_printf(out, "%*s  ", (int)widths[column], cell);
        else
            text_column(out, cell, widths[column] + GAP);
        used += widths[column] + GAP;
    }
    const char *text = row ? cell_of(row, last) : table->columns[last].title;
    if (table->width > used + LEAST_OF_LAST)
        (table->columns[last].words ? text_cut_end : text_cut)(out, text, table->width - used);
    buf_putc(out, '\n');
    text_wrap(out, start, table->width);
}

void table_put(struct buf *out, struct table *table)
{
    size_t widths[TABLE_COLUMNS] = {0}, last = last_of(table);
    columns_measure(table, last, widths);
    if (!table->put)
        put_row(out, table, last, widths, NULL);
    table->put = true;
    memcpy(table->widths, widths, sizeof widths);
    for (size_t i = 0; i < table->count; i++) {
        put_row(out, table, last, widths, &table->rows[i]);
        size_t start = out->len;
        buf_puts(out, table->rows[i].below.data ? table->rows[i].below.data : "");
        text_wrap(out, start, table->width);
    }
    free_rows(table);
}
