/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints one of doc/reference/NAME.schema.json, of what `scry --json` commands print, from the declarations of their
 * fields (jobdir/text/fields.h). It is not installed: a test compares what it prints with the pages.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "cli/ps_json.h"
#include "cli/top_json.h"
#include "jobdir/report/report.h"

static const struct {
    const char *name, *title;
    json_t *(*schema)(void);
} schemas[] = {
    {"report", "scry report --json", job_report_schema},
    {"ps", "scry ps --json", ps_schema},
    {"top", "scry top --json", top_schema},
    {"report-diff", "scry report --diff --json", job_report_diff_schema},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
        if (argc != 2 || strcmp(argv[1], schemas[i].name) != 0)
            continue;
        json_t *json = json_pack("{s:s, s:s}", "$schema", "https://json-schema.org/draft/2020-12/schema", "title",
                                 schemas[i].title);
        json_t *schema = schemas[i].schema();
        int code = json && schema && json_object_update(json, schema) == 0 ? 0 : -1;
        code = code ? code : json_dumpf(json, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(schema);
        json_decref(json);
        return code ? EXIT_FAILURE : EXIT_SUCCESS;
    }
    fprintf(stderr, "Usage: %s NAME\n\nwhere NAME is one of:", argv[0]);
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++)
        fprintf(stderr, " %s", schemas[i].name);
    fputc('\n', stderr);
    return EXIT_FAILURE;
}
