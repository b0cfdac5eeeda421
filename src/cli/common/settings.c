/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/settings.h"

#include <string.h>

#include "jobdir/record/spool.h"

/* Each log is one more, until they are off. */
static void set(json_t *settings, const char *key, json_t *value)
{
    const char *text = json_string_value(value), *before = json_string_value(json_object_get(settings, key));
    if (text && before && strcmp(key, "log") == 0 && strcmp(text, "off") != 0 && strcmp(before, "off") != 0)
        json_object_set_new(settings, key, json_sprintf("%s %s", before, text));
    else
        json_object_set(settings, key, value);
}

void settings_read(const char *path, json_t *settings)
{
    struct spool_reader reader;
    if (spool_reader_open(&reader, path, NULL) < 0)
        return;
    for (json_t *record; (record = spool_reader_next(&reader)); json_decref(record)) {
        const char *type = json_string_value(json_object_get(record, "type"));
        if (type && strcmp(type, "tracing") == 0)
            json_object_update(settings, json_object_get(record, "settings"));
        const char *key = json_string_value(json_object_get(record, "key"));
        if (type && strcmp(type, "setting") == 0 && key && json_is_true(json_object_get(record, "taken")))
            set(settings, key, json_object_get(record, "value"));
    }
    spool_reader_close(&reader);
}
