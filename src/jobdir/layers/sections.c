/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/layers/sections.h"

#include "base/data/cleanup.h"
#include "jobdir/text/text.h"

enum { LINE_COLUMNS = 200 };

json_t *sections_records(const struct layer_list *list)
{
    static const char *const spool_only[] = {"seq", "type", "job", "node", "stream"};
    json_t *copy = list->records ? json_deep_copy(list->records) : json_array(), *record;
    size_t index;
    json_array_foreach(copy, index, record)
    {
        for (size_t i = 0; i < sizeof spool_only / sizeof *spool_only; i++)
            json_object_del(record, spool_only[i]);
    }
    return copy;
}

void sections_put_records(struct buf *out, const char *title, const struct layer_list *list, size_t most)
{
    size_t count = json_array_size(list->records), first = count > most ? count - most : 0;
    if (!count)
        return;
    buf_printf(out, "\n%s\n", title);
    if (list->total > count - first)
        buf_printf(out, "  ... %llu before\n", (unsigned long long)(list->total - (count - first)));
    for (size_t i = first; i < count; i++) {
        const json_t *record = json_array_get(list->records, i);
        _cleanup_(buf_done) struct buf text = BUF_INIT, cut = BUF_INIT;
        record_text(&text, record);
        if (text.data)
            buf_append(&cut, text.data, text_fit(text.data, text.len, LINE_COLUMNS));
        buf_printf(out, "  %9.2f s  ", record_seconds(record));
        text_show(out, cut.data ? cut.data : "?");
        buf_putc(out, '\n');
    }
}
