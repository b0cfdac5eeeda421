/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/why/stall.h"

#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "jobdir/mpi/text.h"
#include "jobdir/text/text.h"

static const char before_place[] = ", at ";

/* As in the record: the file name without its folder, and the offset in it. */
static bool is_at(const struct mpi_stats_site *site, const char *text, size_t len)
{
    const char *name = text_base(site->module ? site->module : "");
    size_t name_len = strlen(name);
    char *end;
    if (!site->function || !*site->function || !name_len || len <= name_len + 3 || strncmp(text, name, name_len) != 0 ||
        strncmp(text + name_len, "+0x", 3) != 0)
        return false;
    return strtoull(text + name_len + 1, &end, 16) == site->offset && end == text + len;
}

static const struct mpi_stats_site *site_at(const struct mpi_stats_set *set, const char *text, size_t len)
{
    for (size_t i = 0; i < set->count; i++) {
        const struct mpi_stats *stats = &set->ranks[i];
        for (size_t k = 0; k < stats->thread_count; k++)
            if (is_at(&stats->threads[k].now.site, text, len))
                return &stats->threads[k].now.site;
        for (size_t k = 0; k < stats->site_count; k++)
            if (is_at(&stats->sites[k], text, len))
                return &stats->sites[k];
    }
    return NULL;
}

/* Puts a text like "..., at MODULE+0x1234, for 3 s" with a name in place of the address. */
static void put_named(struct buf *out, const char *text, const struct mpi_stats_set *set)
{
    for (const char *place; (place = strstr(text, before_place)); text = place) {
        place += sizeof before_place - 1;
        buf_append(out, text, (size_t)(place - text));
        size_t len = strcspn(place, ",\n");
        const struct mpi_stats_site *site = site_at(set, place, len);
        if (!site)
            continue;
        mpi_text_site(out, site);
        place += len;
    }
    buf_puts(out, text);
}

static const char *text_of(const json_t *record)
{
    const char *text = json_string_value(json_object_get(record, "why"));
    return text ? text : "";
}

void why_stall_text(struct buf *out, const json_t *record, const struct mpi_stats_set *set)
{
    _cleanup_(buf_done) struct buf named = BUF_INIT;
    if (!record)
        return;
    buf_puts(out, "its ranks last stood still ");
    text_seconds(out, json_number_value(json_object_get(record, "t")));
    buf_puts(out, " after the start: for ");
    text_seconds(out, json_number_value(json_object_get(record, "seconds")));
    buf_puts(out, " none had begun or ended an MPI call\n");
    put_named(&named, text_of(record), set);
    for (const char *line = named.data ? named.data : ""; *line;) { /* what the job recorded then */
        size_t len = strcspn(line, "\n");
        if (len) {
            _cleanup_(freep) char *copy = strndup(line, len);
            buf_puts(out, "  | ");
            text_show(out, copy ? copy : "");
        }
        buf_puts(out, len ? "\n" : "  |\n");
        line += len + (line[len] == '\n');
    }
}

struct stall_row {
    double at, seconds;
    const char *text;
};

const struct field why_stall_fields[] = {
    {"at", FIELD_NUMBER, FIELD_AT(struct stall_row, at), .about = "seconds after the start"},
    {"seconds", FIELD_NUMBER, FIELD_AT(struct stall_row, seconds),
     .about = "for so long none had begun or ended a call"},
    {"text", FIELD_TEXT, FIELD_AT(struct stall_row, text)},
    {0}};

json_t *why_stall_json(const json_t *record, const struct mpi_stats_set *set)
{
    _cleanup_(buf_done) struct buf named = BUF_INIT;
    if (!record)
        return json_null();
    put_named(&named, text_of(record), set);
    const struct stall_row row = {json_number_value(json_object_get(record, "t")),
                                  json_number_value(json_object_get(record, "seconds")), named.data};
    return fields_json(why_stall_fields, &row, NULL);
}
