/* SPDX-License-Identifier: Apache-2.0 */
/* What the keys of scry top choose: order, tables, filter, tree, place. */
#ifndef SCRY_CLI_TOP_KEYS_H
#define SCRY_CLI_TOP_KEYS_H

#include <stdbool.h>
#include <stddef.h>

enum top_order { TOP_BY_CPU, TOP_BY_MEMORY, TOP_BY_TIME, TOP_BY_PID, TOP_BY_NAME };

struct top_choice {
    enum top_order order;
    bool only_functions, only_ranks, tree, help;
    char filter[64]; /* names that have this in them; "": all */
    bool typing;     /* the filter is being typed */
    size_t scroll;   /* so many lines of each table are passed over, if there are more than fit */
    size_t page;     /* lines that are shown at once; set by who draws */
};

/* Takes what was typed; keys that send several bytes come at once. false: quit. */
bool top_keys_take(struct top_choice *choice, const char *keys, size_t len);
/* Whether the filter lets a name through. */
bool top_choice_has(const struct top_choice *choice, const char *name);

/* What the last line of the screen says; and all keys, a line each, ended by NULL. */
void top_keys_line(const struct top_choice *choice, char *ret_text, size_t size);
extern const char *const top_keys_help[];

#endif
