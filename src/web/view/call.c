/* SPDX-License-Identifier: Apache-2.0 */
#include "web/view/call.h"

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/system/file.h"
#include "job/places/place_names.h"
#include "jobdir/mpi/text.h"
#include "jobdir/trace/calls.h"
#include "shm/waits.h"
#include "web/view/ask.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct taking {
    struct values *values;
    const struct trace *trace;
    const struct lane_call *call;
};

static void put_part(struct buf *out, const struct taking *taking, const struct layout *layout, enum layout_part part,
                     const void *bytes, size_t size)
{
    if (layout && !out->len)
        call_put_json(out, taking->trace, layout, part, bytes, size);
}

static void take_event(void *ctx, const struct trace_event *event)
{
    const struct taking *taking = ctx;
    struct values *values = taking->values;
    if (event->function != taking->call->id || event->entry_time != taking->call->entry_time)
        return;
    if (event->kind == TRACE_ENTRY) {
        put_part(&values->arguments, taking, event->layout, LAYOUT_ARGS, event->values, event->values_size);
        put_part(&values->caller, taking, event->caller_layout, LAYOUT_CALLER, event->caller_values,
                 event->caller_size);
    } else {
        put_part(&values->locals, taking, event->layout, LAYOUT_LOCALS, event->values, event->values_size);
        put_part(&values->result, taking, event->layout, LAYOUT_RESULT, event->values, event->values_size);
    }
}

int values_read(struct values *ret_values, struct view *view, const struct view_lane *lane,
                const struct lane_call *call, struct err *err)
{
    struct taking taking = {ret_values, view->list[lane->key.trace], call};
    const struct lane_reader reader = {.event = take_event, .ctx = &taking};
    int code = lane_read(view, lane, call->begin, call->begin + 1, &reader, err);
    return code == 0 && call->end > call->begin ? lane_read(view, lane, call->end, call->end + 1, &reader, err) : code;
}

void values_done(struct values *values)
{
    buf_done(&values->arguments);
    buf_done(&values->locals);
    buf_done(&values->result);
    buf_done(&values->caller);
}

void values_put_list(struct buf *out, const char *name, const struct buf *json)
{
    const char *key;
    json_t *value, *object = json->len ? json_loadb(json->data, json->len, 0, NULL) : NULL;
    bool first = true;
    buf_printf(out, ",\"%s\":[", name);
    json_object_foreach(object, key, value)
    {
        char *text = json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY);
        buf_puts(out, first ? "{\"name\":" : ",{\"name\":");
        view_put_text(out, key);
        buf_puts(out, ",\"value\":");
        view_put_text(out, text ? text : json_string_value(value));
        buf_putc(out, '}');
        free(text);
        first = false;
    }
    buf_putc(out, ']');
    json_decref(object);
}

void values_put_result(struct buf *out, const struct values *values)
{
    const struct buf *json = &values->result;
    json_t *value = json->len ? json_loadb(json->data, json->len, JSON_DECODE_ANY, NULL) : NULL;
    char *text = value && !json_is_string(value) ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
    buf_puts(out, ",\"result\":");
    view_put_text(out, text ? text : json_string_value(value));
    free(text);
    json_decref(value);
}

/* One call: what is around it, its values, and where it came from. */

/* ---- the calls at a time ---- */

struct around {
    struct lane_call *list;
    size_t count, room;
    int64_t at;
    bool failed;
};

static bool take_call(void *ctx, const struct lane_call *call)
{
    struct around *around = ctx;
    if (call->begin > around->at || (call->end <= around->at && call->begin != around->at))
        return true;
    if (!GROW(around->list, around->count, around->room)) {
        around->failed = true;
        return false;
    }
    around->list[around->count++] = *call;
    return true;
}

static int by_row(const void *a, const void *b)
{
    const struct lane_call *left = a, *right = b;
    return left->row < right->row ? -1 : left->row > right->row;
}

/* ---- what is known of it ---- */

/* Where it was called, as far as the trace says: a place in a file, or in a module. */
static void put_place(struct buf *out, const struct view *view, const struct view_lane *lane,
                      const struct lane_call *of)
{
    const struct call call = {.function = of->id, .place = of->place};
    _cleanup_(buf_done) struct buf place = BUF_INIT;
    bool known = of->place != UINT32_MAX && call_put_place(&place, view->list[lane->key.trace], &call, true);
    buf_puts(out, ",\"from\":");
    view_put_text(out, known ? place.data : NULL);
}

/* What of its time was on a processor, and what not. */
static void put_time(struct buf *out, const struct view *view, const struct view_lane *lane,
                     const struct lane_call *call)
{
    struct call_time time;
    if (lane_call_time(view, lane, call, &time))
        buf_printf(out, ",\"cpu_ns\":%" PRId64 ",\"waiting_ns\":%" PRId64 ",\"preempted_ns\":%" PRId64,
                   view_ns(time.cpu_ns), view_ns(time.waiting_ns), view_ns(time.preempted_ns));
    else
        buf_puts(out, ",\"cpu_ns\":null,\"waiting_ns\":null,\"preempted_ns\":null");
}

/* ---- the answer ---- */

static void put_call(struct buf *out, struct view *view, const struct view_lane *lane, const struct lane_call *call)
{
    buf_printf(out, "\"function\":%" PRIu32 ",\"begin\":%" PRId64 ",\"end\":%" PRId64 ",\"depth\":%" PRIu32,
               view_function(view, lane->key.trace, call->id), call->begin, call->end, call->row);
}

static int put_all(struct buf *out, struct view *view, const struct view_lane *lane, const struct around *around,
                   size_t at, struct err *err)
{
    const struct lane_call *call = &around->list[at];
    _cleanup_(values_done) struct values values = {0};
    int code = values_read(&values, view, lane, call, err);
    if (code == 0) {
        buf_putc(out, '{');
        put_call(out, view, lane, call);
        buf_printf(out, ",\"how\":\"%s\"", call_how(call->how));
        values_put_list(out, "arguments", &values.arguments);
        values_put_list(out, "locals", &values.locals);
        values_put_list(out, "caller_locals", &values.caller);
        values_put_result(out, &values);
        put_place(out, view, lane, call);
        put_time(out, view, lane, call);
        buf_puts(out, ",\"callers\":[");
        for (size_t i = at; i--;) {
            buf_puts(out, i + 1 == at ? "{" : ",{");
            put_call(out, view, lane, &around->list[i]);
            buf_putc(out, '}');
        }
        buf_puts(out, "]}");
    }
    return code;
}

int answer_call(struct view *view, const struct asked *asked, struct buf *out, struct err *err)
{
    if ((uint64_t)asked->lane >= view->lane_count)
        return err_set(err, -ENOENT, "there is no lane %" PRId64 ": the picture has %zu", asked->lane,
                       view->lane_count);
    const struct view_lane *lane = view->lane_list[asked->lane];
    struct around around = {.at = asked->at};
    const struct lane_reader reader = {.call = take_call, .ctx = &around};
    int code = lane_read(view, lane, asked->at, asked->at + 1, &reader, err);
    if (code == 0 && around.failed)
        code = err_set(err, -ENOMEM, "out of memory");
    if (code == 0 && around.count)
        qsort(around.list, around.count, sizeof *around.list, by_row);
    size_t at = around.count;
    for (size_t i = 0; code == 0 && i < around.count; i++) {
        struct lane_call whole = around.list[i];
        if (around.list[i].open && lane_call_end(view, lane, &around.list[i], &whole))
            around.list[i] = whole;
        if (asked->depth < 0 || around.list[i].row == (uint64_t)asked->depth)
            at = i;
    }
    if (code == 0 && at == around.count)
        code = err_set(err, -ENOENT, "no recorded call is at this place: lane %" PRId64 ", %" PRId64 " ns", asked->lane,
                       asked->at);
    if (code == 0)
        code = put_all(out, view, lane, &around, at, err);
    free(around.list);
    return code;
}

/*
 * Lines of a source file with what the functions and calls in them took. Only files are read that the job's debug
 * information names, and that have a name as sources have: a directory may be made up, and the answer goes to whoever
 * asked.
 */

enum {
    SOURCE_BYTES = 4 << 20,
    SOURCE_LINES = 100000,
    SOURCE_FILES = 2000, /* that are listed */
};

/* ---- which file ---- */

/* How much of a path is that of the directory above the one in which the job lies: a task's, if the job is a run of it.
 * Its files are below ~/.local, so what is hidden counts only from there on. */
static size_t own_part(const char *job, const char *path)
{
    size_t length = strlen(job);
    for (int up = 0; up < 2; up++) {
        while (length > 0 && job[length - 1] != '/')
            length--;
        length -= length > 0;
    }
    return strncmp(job, path, length) == 0 && path[length] == '/' ? length : 0;
}

static bool is_source(const char *path, size_t own)
{
    static const char *const ends[] = {"c",   "h",   "cc",  "cpp", "cxx", "c++", "hh",  "hpp", "hxx", "inl",
                                       "cu",  "cuh", "f",   "F",   "for", "FOR", "f77", "f90", "F90", "f95",
                                       "F95", "f03", "F03", "f08", "F08", "py",  "rs",  "go",  "jl",  "pyx",
                                       "m",   "mm",  "s",   "S",   "d",   "adb", "pas", "C",   "H"};
    const char *dot = strrchr(path, '.'), *slash = strrchr(path, '/');
    if (!dot || (slash && dot < slash))
        return false;
    for (const char *at = path + own; (at = strstr(at, "/.")); at += 2)
        if (at[2] != '.' && at[2] != '/')
            return false; /* what is hidden is none */
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (strcmp(dot + 1, ends[i]) == 0)
            return true;
    return false;
}

static bool is_named(const struct view *view, const char *file)
{
    const struct job_functions *functions = view->report.functions;
    const struct mpi_report *mpi = view->report.mpi;
    for (const struct job_function *each = functions->functions; each; each = each->hh.next)
        if (strcmp(each->file, file) == 0)
            return true;
    for (const struct job_site *each = functions->sites; each; each = each->hh.next)
        if (each->file && strcmp(each->file, file) == 0)
            return true;
    for (size_t i = 0; mpi && i < mpi->site_count; i++)
        if (strcmp(mpi->sites[i].site->file, file) == 0)
            return true;
    return false;
}

/* A directory of somebody else may name any file that we can read: then what is theirs, or everybody's, is shown. */
static bool may_show(const char *job, const struct stat *file)
{
    struct stat its;
    if (stat(job, &its) < 0)
        return false;
    return its.st_uid == geteuid() || file->st_uid == its.st_uid || (file->st_uid == 0 && file->st_mode & S_IROTH);
}

/* The file's text, malloc'ed, and where it was found. */
static char *read_source(const struct view *view, const char *file, char *ret_path, size_t *ret_size,
                         const char **ret_why)
{
    char path[PATH_MAX];
    struct stat st;
    const char *cwd = view->report.info.cwd;
    *ret_why = "the file is not on this machine";
    if (file[0] != '/' && cwd ? (size_t)snprintf(path, sizeof path, "%s/%s", cwd, file) >= sizeof path
                              : (size_t)snprintf(path, sizeof path, "%s", file) >= sizeof path)
        return NULL;
    if (path[0] != '/' || !realpath(path, ret_path))
        return NULL;
    if (!is_source(ret_path, own_part(view->job, ret_path))) {
        *ret_why = "it has no name as sources have";
        return NULL;
    }
    _cleanup_(closep) int fd = file_open_own(AT_FDCWD, ret_path, O_RDONLY);
    if (fd < 0 || fstat(fd, &st) < 0)
        return NULL;
    if (!may_show(view->job, &st)) {
        *ret_why = "the job is somebody else's, and this file is neither theirs nor the system's";
        return NULL;
    }
    size_t size = st.st_size < SOURCE_BYTES ? (size_t)st.st_size : SOURCE_BYTES, have = 0;
    char *text = malloc(size + 1);
    for (ssize_t got = 1; text && have < size && got > 0; have += got > 0 ? (size_t)got : 0)
        got = read(fd, text + have, size - have);
    if (text && memchr(text, 0, have)) {
        free(text);
        *ret_why = "it is no text";
        return NULL;
    }
    *ret_size = have;
    return text;
}

/* ---- what is said of it ---- */

static void put_lines(struct buf *out, char *text, size_t size)
{
    size_t count = 0;
    buf_puts(out, ",\"lines\":[");
    for (char *at = text, *end = text ? text + size : NULL; at < end && count < SOURCE_LINES;) {
        char *line = memchr(at, '\n', (size_t)(end - at));
        if (line)
            *line = '\0';
        buf_puts(out, count++ ? "," : "");
        view_put_text(out, at);
        at = line ? line + 1 : end;
    }
    buf_putc(out, ']');
}

static void put_site(struct buf *out, bool *first, const char *function, uint64_t line, uint64_t calls,
                     int64_t total_ns)
{
    buf_printf(out, "%s{\"line\":%" PRIu64 ",\"function\":", *first ? "" : ",", line);
    view_put_text(out, function);
    buf_printf(out, ",\"calls\":%" PRIu64 ",\"total_ns\":%" PRId64 "}", calls, total_ns);
    *first = false;
}

static void put_functions(struct buf *out, const struct view *view, const char *file)
{
    const struct job_functions *functions = view->report.functions;
    const struct mpi_report *mpi = view->report.mpi;
    bool first = true;
    buf_puts(out, ",\"functions\":[");
    for (const struct job_function *each = functions->functions; each; each = each->hh.next) {
        if (strcmp(each->file, file) != 0)
            continue;
        buf_printf(out, "%s{\"line\":%" PRIu32 ",\"function\":", first ? "" : ",", each->line);
        view_put_text(out, each->name);
        buf_printf(out, ",\"calls\":%" PRIu64 ",\"total_ns\":%" PRId64 ",\"self_ns\":%" PRId64 "}", each->calls,
                   view_ns(each->total_ns), view_ns(each->self_ns));
        first = false;
    }
    buf_puts(out, "],\"sites\":[");
    first = true;
    for (const struct job_site *each = functions->sites; each; each = each->hh.next) {
        if (!each->file || strcmp(each->file, file) != 0)
            continue;
        put_site(out, &first, each->function->name, each->line, each->calls, view_ns(each->total_ns));
    }
    for (size_t i = 0; mpi && i < mpi->site_count; i++) {
        const struct mpi_report_site *each = &mpi->sites[i];
        if (strcmp(each->site->file, file) == 0)
            put_site(out, &first, mpi_text_call(each->call), each->site->line, each->count, (int64_t)each->total_ns);
    }
    buf_putc(out, ']');
}

/* ---- all files ---- */

struct file {
    const char *name;
    uint64_t functions;
    double self_ns;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct file *)a)->name, ((const struct file *)b)->name);
}

static int by_self(const void *a, const void *b)
{
    const struct file *left = a, *right = b;
    if (left->self_ns != right->self_ns)
        return left->self_ns > right->self_ns ? -1 : 1;
    return by_name(a, b);
}

static int put_files(struct buf *out, const struct job_functions *functions, const struct mpi_report *mpi,
                     struct err *err)
{
    size_t count = 0, used = 0, sites = mpi ? mpi->site_count : 0;
    _cleanup_(freep) struct file *files = calloc(HASH_COUNT(functions->functions) + sites + 1, sizeof *files);
    if (!files)
        return err_set(err, -ENOMEM, "out of memory");
    for (const struct job_function *each = functions->functions; each; each = each->hh.next)
        if (each->file[0])
            files[count++] = (struct file){each->file, 1, each->self_ns};
    for (size_t i = 0; i < sites; i++)
        if (mpi->sites[i].site->file[0]) /* of which no function may have been recorded */
            files[count++] = (struct file){mpi->sites[i].site->file, 0, 0};
    qsort(files, count, sizeof *files, by_name);
    for (size_t i = 0; i < count; i++)
        if (used && strcmp(files[used - 1].name, files[i].name) == 0) {
            files[used - 1].functions += files[i].functions;
            files[used - 1].self_ns += files[i].self_ns;
        } else {
            files[used++] = files[i];
        }
    qsort(files, used, sizeof *files, by_self);
    buf_puts(out, "{\"files\":[");
    for (size_t i = 0; i < used && i < SOURCE_FILES; i++) {
        buf_puts(out, i ? ",{\"file\":" : "{\"file\":");
        view_put_text(out, files[i].name);
        buf_printf(out, ",\"functions\":%" PRIu64 ",\"self_ns\":%" PRId64 "}", files[i].functions,
                   view_ns(files[i].self_ns));
    }
    buf_puts(out, "]}");
    return 0;
}

int answer_source(struct view *view, const struct asked *asked, struct buf *out, struct err *err)
{
    struct job_functions *functions = view->report.functions;
    struct err unnamed = {0};
    if (view->report.mpi && !view->mpi_named &&
        mpi_names_find(&view->report.mpi->set, view->job, MPI_NAMES_TIMEOUT_MS, &unnamed) == -ENOMEM)
        return err_set(err, -ENOMEM, "out of memory");
    view->mpi_named = true;
    if (!asked->file)
        return put_files(out, functions, view->report.mpi, err);
    if (!functions->sites_named && trace_names_sites(functions, view->job, &unnamed) == -ENOMEM)
        return err_set(err, -ENOMEM, "out of memory");
    if (!*asked->file || !is_named(view, asked->file))
        return err_set(err, -ENOENT, "no recorded function is in a file %.200s", asked->file);
    char path[PATH_MAX];
    size_t size = 0;
    const char *why = NULL;
    _cleanup_(freep) char *text = read_source(view, asked->file, path, &size, &why);
    buf_puts(out, "{\"file\":");
    view_put_text(out, asked->file);
    buf_puts(out, ",\"path\":");
    view_put_text(out, text ? path : NULL);
    buf_puts(out, ",\"missing\":");
    view_put_text(out, text ? NULL : why);
    if (text)
        text[size] = '\0';
    put_lines(out, text, text ? size : 0);
    put_functions(out, view, asked->file);
    buf_putc(out, '}');
    return 0;
}
