/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_CLI_TOP_TOP_H
#define SCRY_CLI_TOP_TOP_H

#include "cli/jobs/ranks.h"
#include "jobdir/report/report.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* What the keys of scry top choose: order, tables, filter, tree, place. */

enum top_order { TOP_BY_CPU, TOP_BY_MEMORY, TOP_BY_TIME, TOP_BY_PID, TOP_BY_NAME };

struct top_choice {
    enum top_order order;
    bool only_functions, only_ranks, tree, help;
    char filter[64]; /* names that have this in them; "": all */
    bool typing;     /* the filter is being typed */
    size_t scroll;   /* lines to skip in each table that does not fit */
    size_t page;     /* lines shown at once; set by the drawing code */
};

/* Handles typed keys; all bytes of a key come at once. false: quit. */
bool top_keys_take(struct top_choice *choice, const char *keys, size_t len);
/* Does the filter let a name through? */
bool top_choice_has(const struct top_choice *choice, const char *name);

/* The last line of the screen; and the help on keys, its lines ended by NULL. */
void top_keys_line(const struct top_choice *choice, char *ret_text, size_t size);
extern const char *const top_keys_help[];

/* scry top, for programs. Both return a new reference, or NULL when out of memory. */

json_t *top_schema(void);

#endif
