/* SPDX-License-Identifier: Apache-2.0 */
/* Of which processes it is not known when they had a processor, and why: their CPU times are missing. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "base/data/hash.h"
#include "jobdir/report/functions_internal.h"
#include "jobdir/text/text.h"

enum { UNWATCHED_NAMES = 3 };

/* Whether the name is in the list "a, b". */
static bool has_name(const char *names, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = names, *end; at; at = end ? end + strlen(", ") : NULL) {
        end = strstr(at, ", ");
        if ((end ? (size_t)(end - at) : strlen(at)) == len && memcmp(at, name, len) == 0)
            return true;
    }
    return false;
}

static int add_unwatched_for(struct job_functions *all, const char *why, const char *name)
{
    struct job_unwatched *known;
    HASH_FIND_STR(all->unwatched_for, why, known);
    if (!known) {
        known = calloc(1, sizeof *known);
        if (!known || !(known->why = strdup(why)) || !(known->names = strdup(name))) {
            free(known ? known->why : NULL);
            free(known);
            return -ENOMEM;
        }
        HASH_ADD_KEYPTR(hh, all->unwatched_for, known->why, strlen(known->why), known);
        known->programs = 1;
    } else if (known->programs <= UNWATCHED_NAMES && !has_name(known->names, name)) {
        char *names;
        const char *more = known->programs++ == UNWATCHED_NAMES ? "..." : name;
        if (asprintf(&names, "%s, %s", known->names, more) < 0)
            return -ENOMEM;
        free(known->names);
        known->names = names;
    }
    known->processes++;
    return 0;
}

int report_unwatched_add(struct job_functions *all, const struct trace *trace)
{
    const char *why = trace_value(trace, "switches_missing"), *exe = trace_value(trace, "exe");
    const char *name = exe && *exe ? text_base(exe) : "?"; /* "": /proc was not mounted, or not ours */
    if (!why && trace_number(trace, "switches_from"))
        return 0;
    why = why ? why : "its trace does not have it";
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    buf_printf(&text, "%s: %s", name, why);
    if (text.failed)
        return -ENOMEM;
    report_add_once(all->unwatched, text_json(text.data));
    bool gone = trace_number(trace, "switches_gone") != 0;
    return add_unwatched_for(all, gone ? "gone before they could be watched" : why, name);
}

void report_unwatched_free(struct job_functions *all)
{
    HASH_FREE_ALL(all->unwatched_for, free(each->why); free(each->names));
    json_decref(all->unwatched);
}

void report_unwatched_text(struct buf *out, const struct job_functions *functions)
{
    for (const struct job_unwatched *each = functions->unwatched_for; each; each = each->hh.next) {
        buf_puts(out, "  cpu and waiting: not known of all of ");
        if (each->processes > 1)
            buf_printf(out, "%zu processes (", each->processes);
        text_show(out, each->names);
        buf_puts(out, each->processes > 1 ? "): " : ": ");
        text_show(out, each->why);
        buf_putc(out, '\n');
    }
}
