/* SPDX-License-Identifier: Apache-2.0 */
/* What jobs say of themselves, as it goes on to others; the first byte says where: a record to OpenTelemetry must become JSON, names in
 * metrics must stay within their quotes, and what a terminal gets has no control characters. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "fuzz.h"
#include "site/metrics.h"

static void fuzz_otlp(struct span record)
{
    struct buf out = BUF_INIT;
    int code = otlp_put_record(&out, 1e9, 2e9, 7, "job", record);
    json_t *json = code == 0 ? json_loadb(out.data, out.len, JSON_REJECT_DUPLICATES, NULL) : NULL;
    fuzz_expect(code < 0 || json_is_array(json_object_get(json, "attributes")));
    fuzz_expect(code < 0 || json_is_string(json_object_get(json_object_get(json, "body"), "stringValue")));
    json_decref(json);
    buf_done(&out);
}

/* A line is a comment, or a name, perhaps labels whose quotes are closed, and a number. */
static void check_line(const char *line, size_t len)
{
    bool quoted = false;
    size_t i = 0;
    if (*line == '#')
        return;
    fuzz_expect(len > 5 && memcmp(line, "scry_", 5) == 0);
    for (; i < len && (quoted || line[i] != ' '); i++) {
        if (quoted && line[i] == '\\')
            i++;
        else if (line[i] == '"')
            quoted = !quoted;
    }
    fuzz_expect(!quoted && i < len);
    char *end;
    strtod(line + i + 1, &end);
    fuzz_expect(end == line + len);
}

static void fuzz_names(const char *text)
{
    struct site site = {.time = 1e9};
    struct site_job job = {.key = 1,
                           .owner = text,
                           .id = text,
                           .name = text,
                           .node = text,
                           .state = "running",
                           .batch_system = "slurm",
                           .batch_id = text,
                           .stalled_text = text,
                           .last_warning = text,
                           .kind = SITE_RUNNING,
                           .last_t = 4000,
                           .wall_seconds = 4000,
                           .cpus_asked = 4,
                           .stalled_t = 3900,
                           .recent = {.minutes = 15, .cpus = 0.01}};
    struct site_job *job_pointer = &job;
    struct record_health health = {0};
    struct buf out = BUF_INIT, shown = BUF_INIT;
    HASH_ADD(hh, site.jobs, key, sizeof job_pointer->key, job_pointer);
    fuzz_expect(site_judge(&site) == 0 && site.problem_count >= 2);
    metrics_put(&out, &(struct metrics){&site, &health, NULL, 1}, strlen(text) % 2);
    for (const char *line = out.data, *end; line && *line; line = end + 1) {
        end = strchr(line, '\n');
        fuzz_expect(end);
        check_line(line, (size_t)(end - line));
    }
    site_print(&shown, &site, 80);
    for (const char *c = shown.data; c && *c; c++)
        fuzz_expect(*c == '\n' || ((unsigned char)*c >= ' ' && *c != 127));
    buf_done(&out);
    buf_done(&shown);
    site_done(&site);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    char *text = malloc(size);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    json_t *valid = json_stringn(text, strlen(text)); /* the record has no other texts */
    if (*data % 2)
        fuzz_otlp(span_of(text, size - 1));
    else if (valid)
        fuzz_names(text);
    json_decref(valid);
    free(text);
    return 0;
}
