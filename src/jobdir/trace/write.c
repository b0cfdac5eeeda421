/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/trace/write.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "base/data/grow.h"
#include "base/data/hash.h"
#include "jobdir/trace/trace.h"
#include "jobdir/trace/write_internal.h"
#include "symbols/layout/layout.h"

enum { INCARNATION_LIMIT = 100000, VALUES_BYTES = 8192 /* .process, twice */ };

/* ---- making one ---- */

static int adopt_identity(struct trace_writer *writer, const struct trace_identity *identity)
{
    const char **fields[] = {&writer->identity.node, &writer->identity.exe, &writer->identity.host,
                             &writer->identity.boot_id};
    writer->identity = *identity;
    for (size_t i = 0; i < 4; i++) {
        writer->strings[i] = strdup(*fields[i] ? *fields[i] : "");
        if (!writer->strings[i])
            return -ENOMEM;
        *fields[i] = writer->strings[i];
    }
    if (writer->identity.ticks_per_second == 0)
        writer->identity.ticks_per_second = NS_PER_SECOND;
    return 0;
}

static int make_directory(struct trace_writer *writer, const char *jobdir, struct err *err)
{
    char node[256], parent[PATH_MAX], path[PATH_MAX];
    snprintf(node, sizeof node, "%s", *writer->identity.node ? writer->identity.node : "node");
    for (char *c = node; *c; c++)
        if (*c == '/')
            *c = '_';
    if (node[0] == '.')
        node[0] = '_';
    int len = snprintf(parent, sizeof parent, "%s/trace/%s", jobdir, node);
    if (len < 0 || (size_t)len >= sizeof parent - 64)
        return err_set(err, -ENAMETOOLONG, "the path of the job directory is too long: %s", jobdir);
    struct stat st;
    if (stat(jobdir, &st) < 0)
        return err_errno(err, -errno, "cannot write a trace to the job directory %s", jobdir);
    int code = 0;
    bool made = false;
    for (int n = 0; code == 0 && n < INCARNATION_LIMIT; n++) {
        snprintf(path, sizeof path, "%.*s/%d-%d", (int)sizeof path - 64, parent, writer->identity.pid, n);
        if (mkdir(path, 0700) == 0) {
            writer->path = strdup(path);
            return writer->path ? 0 : err_set(err, -ENOMEM, "out of memory");
        }
        if (errno == ENOENT && !made) { /* the first of its job */
            made = true;
            code = dirs_make(parent, 0700);
            n--;
        } else if (errno != EEXIST) {
            code = -errno;
        }
    }
    return err_errno(err, code ? code : -EEXIST, "cannot make a directory for the trace in %s", parent);
}

int trace_writer_new(struct trace_writer **ret_writer, const char *jobdir, const struct trace_identity *identity,
                     bool lazy, struct err *err)
{
    struct trace_writer *writer = calloc(1, sizeof *writer);
    if (!writer || adopt_identity(writer, identity) < 0) {
        trace_writer_free(writer);
        return err_set(err, -ENOMEM, "out of memory");
    }
    int code = make_directory(writer, jobdir, err);
    if (code < 0) {
        trace_writer_free(writer);
        return code;
    }
    if (getrandom(writer->uuid, sizeof writer->uuid, GRND_NONBLOCK) != sizeof writer->uuid) {
        uint64_t ns = clock_wall_ns();
        memcpy(writer->uuid, &ns, sizeof ns);
        memcpy(writer->uuid + 8, &writer->identity.pid, sizeof writer->identity.pid);
    }
    writer->metadata_stale = writer->process_stale = true;
    trace_writer_set(writer, "version", "%d", TRACE_VERSION);
    trace_writer_set(writer, "pid", "%d", identity->pid);
    trace_writer_set(writer, "ppid", "%d", identity->ppid);
    trace_writer_set(writer, "node", "%s", writer->identity.node);
    trace_writer_set(writer, "exe", "%s", writer->identity.exe);
    trace_writer_set(writer, "host", "%s", writer->identity.host);
    trace_writer_set(writer, "boot_id", "%s", writer->identity.boot_id);
    trace_writer_set(writer, "start_ns", "%" PRIu64, identity->start_ns);
    trace_writer_set(writer, "state", "running");
    trace_writer_clock(writer, writer->identity.ticks_per_second, identity->tick_zero_ns);
    code = lazy ? 0 : trace_writer_sync(writer, true);
    if (code < 0) {
        err_errno(err, code, "cannot write the trace %s", writer->path);
        trace_writer_free(writer);
        return code;
    }
    *ret_writer = writer;
    return 0;
}

void trace_writer_free(struct trace_writer *writer)
{
    if (!writer)
        return;
    if (writer->path)
        trace_writer_sync(writer, true);
    for (uint32_t i = 0; i < writer->stream_count; i++)
        if (writer->streams[i].fd >= 0)
            close(writer->streams[i].fd);
    free(writer->streams);
    HASH_FREE_ALL(writer->functions, free(each->name));
    for (size_t i = 0; i < writer->layout_count; i++)
        free(writer->layouts[i].tsdl);
    free(writer->layouts);
    for (size_t i = 0; i < writer->value_count; i++) {
        free(writer->values[i].key);
        free(writer->values[i].text);
    }
    free(writer->values);
    for (size_t i = 0; i < 4; i++)
        free(writer->strings[i]);
    buf_done(&writer->new_functions);
    buf_done(&writer->new_modules);
    buf_done(&writer->new_places);
    buf_done(&writer->new_layouts);
    free(writer->path);
    free(writer);
}

const char *trace_writer_path(const struct trace_writer *writer)
{
    return writer->path;
}

bool trace_writer_failed(const struct trace_writer *writer)
{
    return writer->failed != 0;
}

bool trace_writer_again(struct trace_writer *writer)
{
    if (writer->failed == -ENOSPC || writer->failed == -EDQUOT)
        writer->failed = 0;
    return !writer->failed;
}

uint64_t trace_writer_bytes(const struct trace_writer *writer)
{
    return writer->bytes;
}

uint64_t trace_writer_names(const struct trace_writer *writer)
{
    return VALUES_BYTES + writer->metadata_bytes +
           2 * (writer->new_functions.len + writer->new_places.len + writer->new_layouts.len);
}

void trace_writer_clock(struct trace_writer *writer, uint64_t ticks_per_second, uint64_t tick_zero_ns)
{
    writer->identity.ticks_per_second = ticks_per_second;
    writer->identity.tick_zero_ns = tick_zero_ns;
    writer->metadata_stale = true;
    trace_writer_set(writer, "ticks_per_second", "%" PRIu64, ticks_per_second);
    trace_writer_set(writer, "clock_offset_ns", "%" PRIu64, tick_zero_ns);
    trace_writer_set(writer, "tick_offset", "0");
}

void trace_writer_ending(struct trace_writer *writer)
{
    writer->ending = true;
}

/* ---- names and values ---- */

static struct function *function_get(struct trace_writer *writer, uint32_t id)
{
    struct function *function;
    HASH_FIND(hh, writer->functions, &id, sizeof id, function);
    if (!function && (function = calloc(1, sizeof *function))) {
        function->id = id;
        HASH_ADD(hh, writer->functions, id, sizeof function->id, function);
    }
    return function;
}

int trace_writer_function(struct trace_writer *writer, uint32_t id, uint64_t address, const char *name,
                          const char *file, uint32_t line, uint64_t size, const char *module)
{
    struct function *function = function_get(writer, id);
    char *copy = function ? strdup(name) : NULL;
    if (!copy)
        return -ENOMEM;
    free(function->name);
    function->name = copy;
    struct buf *out = &writer->new_functions;
    buf_printf(out, "%" PRIu32 "\t0x%" PRIx64 "\t", id, address);
    trace_write_field(out, name);
    buf_putc(out, '\t');
    trace_write_field(out, file);
    buf_printf(out, "\t%" PRIu32 "\t%" PRIu64 "\t", line, size);
    trace_write_field(out, module);
    buf_putc(out, '\n');
    writer->metadata_stale = true;
    return out->failed ? -ENOMEM : 0;
}

void trace_writer_module(struct trace_writer *writer, uint64_t start, uint64_t end, uint64_t bias, const char *key)
{
    struct buf *out = &writer->new_modules;
    buf_printf(out, "0x%" PRIx64 "\t0x%" PRIx64 "\t0x%" PRIx64 "\t", start, end, bias);
    trace_write_field(out, key);
    buf_putc(out, '\n');
}

int trace_writer_place(struct trace_writer *writer, uint32_t number, const struct trace_place *place)
{
    struct function *function = function_get(writer, number | RECORD_PLACE);
    struct buf *out = &writer->new_places;
    if (!function)
        return -ENOMEM;
    function->of = place->function;
    buf_printf(out, "%" PRIu32 "\t%" PRIu32 "\t0x%" PRIx64 "\t0x%" PRIx64 "\t", number, place->function, place->address,
               place->offset);
    trace_write_field(out, place->module);
    buf_printf(out, "\t%s\t%d\n", place->build_id, place->inlined);
    writer->metadata_stale = true;
    return out->failed ? -ENOMEM : 0;
}

static enum ctf_role role_of(const char *layout)
{
    return strncmp(layout, "args", 4) == 0 ? CTF_ENTRY : strncmp(layout, "caller", 6) == 0 ? CTF_CALLER : CTF_EXIT;
}

static int add_layout(struct trace_writer *writer, uint32_t id, enum ctf_role role, char *tsdl_take)
{
    if (!tsdl_take)
        return -ENOMEM;
    if (!GROW(writer->layouts, writer->layout_count, writer->layout_cap)) {
        free(tsdl_take);
        return -ENOMEM;
    }
    writer->layouts[writer->layout_count++] = (struct layout_type){id, role, tsdl_take};
    writer->metadata_stale = true;
    return 1;
}

/* Of those that are only bytes in the metadata one stands for all. */
static int use_unshown(struct trace_writer *writer, uint32_t id, enum ctf_role role)
{
    for (size_t i = 0; i < writer->layout_count; i++)
        if (writer->layouts[i].id > CTF_LAST_LAYOUT && writer->layouts[i].role == role)
            return 0;
    return add_layout(writer, id, role, strdup(""));
}

int trace_writer_layout_use(struct trace_writer *writer, uint32_t id, const char *text)
{
    struct layout *layout = NULL;
    struct err err;
    if (id > CTF_LAST_LAYOUT)
        return use_unshown(writer, id, role_of(text));
    int code = layout_parse(&layout, text, &err);
    if (code < 0)
        return code;
    struct buf tsdl = BUF_INIT;
    layout_tsdl(layout, &tsdl);
    layout_free(layout);
    return add_layout(writer, id, role_of(text), buf_take(&tsdl));
}

int trace_writer_layout_note(struct trace_writer *writer, uint32_t id, const char *text)
{
    buf_printf(&writer->new_layouts, "%" PRIu32 "\t", id);
    trace_write_field(&writer->new_layouts, text);
    buf_putc(&writer->new_layouts, '\n');
    return writer->new_layouts.failed ? -ENOMEM : 0;
}

static struct value *add_value(struct trace_writer *writer, const char *key)
{
    if (!GROW(writer->values, writer->value_count, writer->value_cap))
        return NULL;
    char *copy = strdup(key);
    if (!copy)
        return NULL;
    writer->values[writer->value_count] = (struct value){copy, NULL};
    return &writer->values[writer->value_count++];
}

void trace_writer_set(struct trace_writer *writer, const char *key, const char *format, ...)
{
    char *text;
    va_list args;
    va_start(args, format);
    int len = vasprintf(&text, format, args);
    va_end(args);
    if (len < 0)
        return;
    struct value *value = NULL;
    for (size_t i = 0; i < writer->value_count && !value; i++)
        if (strcmp(writer->values[i].key, key) == 0)
            value = &writer->values[i];
    if (!value)
        value = add_value(writer, key);
    if (!value || (value->text && strcmp(value->text, text) == 0)) {
        free(text);
        return;
    }
    free(value->text);
    value->text = text;
    writer->process_stale = true;
}

static struct value *find_problem(struct trace_writer *writer, const char *line)
{
    for (size_t i = 0; i < writer->value_count; i++) {
        struct value *value = &writer->values[i];
        if (strcmp(value->key, "problem") == 0 && value->text && strcmp(value->text, line) == 0)
            return value;
    }
    return NULL;
}

void trace_writer_problem(struct trace_writer *writer, const struct note *note)
{
    _cleanup_(buf_done) struct buf line = BUF_INIT;
    note_put_line(&line, note);
    if (line.failed || find_problem(writer, line.data))
        return;
    struct value *value = add_value(writer, "problem");
    if (value)
        value->text = buf_take(&line);
    writer->process_stale = true;
}

void trace_writer_problem_over(struct trace_writer *writer, const struct note *note)
{
    _cleanup_(buf_done) struct buf line = BUF_INIT;
    note_put_line(&line, note);
    struct value *value = line.failed ? NULL : find_problem(writer, line.data);
    if (!value)
        return;
    free(value->key);
    free(value->text);
    size_t behind = (size_t)(writer->values + writer->value_count - (value + 1));
    memmove(value, value + 1, behind * sizeof *value);
    writer->value_count--;
    writer->process_stale = true;
}

void trace_put_problem(struct buf *out, const struct note *note)
{
    _cleanup_(buf_done) struct buf line = BUF_INIT;
    note_put_line(&line, note);
    buf_puts(out, "problem\t");
    trace_write_field(out, line.data ? line.data : "");
    buf_putc(out, '\n');
}
