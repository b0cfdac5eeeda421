/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "job/places/place_names.h"
#include "jobdir/mpi/text.h"
#include "jobdir/trace/calls.h"
#include "shm/waits.h"
#include "web/view/ask.h"
#include "web/view/lane.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct values {
    struct buf arguments, locals, result, caller; /* as JSON; empty: not recorded */
};

static int values_read(struct values *ret_values, struct view *view, const struct view_lane *lane,
                       const struct lane_call *call, struct err *err);
static void values_done(struct values *values);
static void values_put_result(struct buf *out, const struct values *values);
static void values_put_list(struct buf *out, const char *name, const struct buf *json);

/* Where calls of certain functions are. */

enum {
    CHUNKS = 64,        /* parts that are searched one after the other: the first calls are found first */
    WITH_VALUES = 1000, /* calls that have their values in one answer */
};

struct search {
    struct view *view;
    const char *glob;
    signed char *matches; /* by function: 0: not looked */
    size_t match_room;
    const struct view_lane *lane;
    int64_t from, to;
    struct found {
        const struct view_lane *lane;
        struct lane_call call;
    } * list;
    size_t count, room, limit;
    bool failed;
};

static bool is_match(struct search *search, uint32_t function)
{
    if (function == UINT32_MAX || !GROW_ZERO_TO(search->matches, (size_t)function + 1, search->match_room))
        return false;
    if (!search->matches[function])
        search->matches[function] = fnmatch(search->glob, search->view->function_list[function]->name, 0) == 0 ? 1 : -1;
    return search->matches[function] > 0;
}

static bool take_found_call(void *ctx, const struct lane_call *call)
{
    struct search *search = ctx;
    if (call->begin < search->from || call->begin >= search->to ||
        !is_match(search, view_function(search->view, search->lane->key.trace, call->id)))
        return true;
    if (!GROW(search->list, search->count, search->room)) {
        search->failed = true;
        return false;
    }
    search->list[search->count++] = (struct found){search->lane, *call};
    return true;
}

static int by_begin(const void *a, const void *b)
{
    const struct found *left = a, *right = b;
    if (left->call.begin != right->call.begin)
        return left->call.begin < right->call.begin ? -1 : 1;
    if (left->lane != right->lane)
        return left->lane->number < right->lane->number ? -1 : 1;
    return left->call.row < right->call.row ? -1 : left->call.row > right->call.row;
}

/* Only the first `limit` are kept. */
static void search_cut(struct search *search, size_t from)
{
    if (search->count > from)
        qsort(search->list + from, search->count - from, sizeof *search->list, by_begin);
    if (search->count > search->limit)
        search->count = search->limit;
}

/* *ret_next: from where on nothing was looked at. */
static int search_find(struct search *search, const bool *lanes, int64_t from, int64_t to, int64_t *ret_next,
                       struct err *err)
{
    const struct lane_reader reader = {.call = take_found_call, .ctx = search};
    const struct pyramid part = {.from = from, .to = to};
    uint64_t deadline = clock_now_ns() + VIEW_SEARCH_NS;
    int code = 0;
    *ret_next = from;
    for (unsigned i = 0; code == 0 && i < CHUNKS && search->count < search->limit && clock_now_ns() < deadline; i++) {
        size_t before = search->count;
        search->from = pyramid_part(&part, 6, i);
        search->to = pyramid_part(&part, 6, i + 1);
        for (size_t k = 0; code == 0 && k < search->view->lane_count; k++) {
            search->lane = search->view->lane_list[k];
            if (lanes[k])
                code = lane_read(search->view, search->lane, search->from, search->to, &reader, err);
        }
        search_cut(search, before);
        *ret_next = search->count < search->limit ? search->to : search->list[search->count - 1].call.begin;
    }
    return search->failed ? err_set(err, -ENOMEM, "out of memory") : code;
}
_Static_assert(CHUNKS == 1 << 6, "find() divides by it");

static int put_values(struct buf *out, struct view *view, const struct view_lane *lane, const struct lane_call *call,
                      struct err *err)
{
    _cleanup_(values_done) struct values values = {0};
    int code = values_read(&values, view, lane, call, err);
    values_put_list(out, "arguments", &values.arguments);
    values_put_result(out, &values);
    return code < 0 ? code : view_between(view);
}

static int put_found(struct buf *out, struct view *view, const struct found *found, bool with_values, struct err *err)
{
    struct lane_call call = found->call;
    if (call.open)
        lane_call_end(view, found->lane, &found->call, &call);
    buf_printf(
        out,
        "{\"lane\":%" PRIu32 ",\"begin\":%" PRId64 ",\"end\":%" PRId64 ",\"depth\":%" PRIu32 ",\"function\":%" PRIu32,
        found->lane->number, call.begin, call.end, call.row, view_function(view, found->lane->key.trace, call.id));
    int code = with_values ? put_values(out, view, found->lane, &call, err) : 0;
    buf_putc(out, '}');
    return code;
}

int answer_search(struct view *view, const struct asked *asked, struct buf *out, struct err *err)
{
    struct search search = {.view = view, .glob = asked->function, .limit = (size_t)asked->limit};
    _cleanup_(freep) bool *lanes = calloc(view->lane_count + 1, sizeof *lanes);
    int64_t from, to, next;
    if (asked->values && search.limit > WITH_VALUES)
        search.limit = WITH_VALUES;
    if (!lanes)
        return err_set(err, -ENOMEM, "out of memory");
    asked_part(view, asked, &from, &to);
    from = from < view->from_ns ? view->from_ns : from;
    to = to > view->to_ns ? view->to_ns + 1 : to;
    int code = asked_numbers(asked->lanes, view->lane_count, lanes, err);
    if (code == 0 && to > from)
        code = search_find(&search, lanes, from, to, &next, err);
    else
        next = to;
    buf_puts(out, "{\"calls\":[");
    for (size_t i = 0; code == 0 && i < search.count; i++) {
        buf_puts(out, i ? "," : "");
        code = put_found(out, view, &search.list[i], asked->values, err);
    }
    buf_printf(out, "],\"complete\":%s,\"next_ns\":%" PRId64 "}", next >= to ? "true" : "false", next);
    free(search.list);
    free(search.matches);
    return code;
}

/* The values of a call: read again where it begins and ends, and written as names and texts. */

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

/* Of a call whose whole time is known. 0, or -errno with err. Pass ret_values, which is zero before, to values_done in
 * any case. */
static int values_read(struct values *ret_values, struct view *view, const struct view_lane *lane,
                       const struct lane_call *call, struct err *err)
{
    struct taking taking = {ret_values, view->list[lane->key.trace], call};
    const struct lane_reader reader = {.event = take_event, .ctx = &taking};
    int code = lane_read(view, lane, call->begin, call->begin + 1, &reader, err);
    return code == 0 && call->end > call->begin ? lane_read(view, lane, call->end, call->end + 1, &reader, err) : code;
}

static void values_done(struct values *values)
{
    buf_done(&values->arguments);
    buf_done(&values->locals);
    buf_done(&values->result);
    buf_done(&values->caller);
}

/* `,"name":[{"name", "value"}, ...]`: the members of one of them, each value as text. */
static void values_put_list(struct buf *out, const char *name, const struct buf *json)
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

/* `,"result":` its text, or null. */
static void values_put_result(struct buf *out, const struct values *values)
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

static bool is_named(const struct view *view, const struct sampled *sampled, const char *file)
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
    for (size_t i = 0; sampled && i < sampled->count; i++)
        if (strcmp(sampled->functions[i].file, file) == 0)
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

/* What was sampled in each line, or in what was called there, as far as lines are known. */
static void put_times(struct buf *out, const struct sampled *sampled, const char *file)
{
    bool first = true;
    buf_puts(out, ",\"times\":[");
    for (size_t i = 0; sampled && i < sampled->count; i++) {
        const struct sampled_function *each = &sampled->functions[i];
        for (size_t k = 0; k < each->line_count && strcmp(each->file, file) == 0; k++) {
            buf_printf(out, "%s{\"line\":%" PRIu32 ",\"function\":", first ? "" : ",", each->lines[k].line);
            view_put_text(out, each->name);
            buf_printf(out, ",\"total_ns\":%" PRId64 ",\"self_ns\":%" PRId64 "}",
                       view_samples_ns(sampled, each->lines[k].total), view_samples_ns(sampled, each->lines[k].self));
            first = false;
        }
    }
    buf_putc(out, ']');
}

/* `sampled`: what is said of it by samples, for no function in it was traced. NULL: one was, or nothing is known. */
static void put_functions(struct buf *out, const struct view *view, const struct sampled *sampled, const char *file)
{
    const struct job_functions *functions = view->report.functions;
    const struct mpi_report *mpi = view->report.mpi;
    bool first = true;
    buf_puts(out, ",\"functions\":[");
    for (size_t i = 0; sampled && i < sampled->count; i++) {
        const struct sampled_function *each = &sampled->functions[i];
        if (strcmp(each->file, file) != 0)
            continue;
        buf_printf(out, "%s{\"line\":%" PRIu32 ",\"function\":", first ? "" : ",", each->line);
        view_put_text(out, each->name);
        buf_printf(out, ",\"calls\":0,\"total_ns\":%" PRId64 ",\"self_ns\":%" PRId64 "}",
                   view_samples_ns(sampled, each->total), view_samples_ns(sampled, each->self));
        first = false;
    }
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
    bool sampled; /* the time is of samples: no function in it was traced */
};

static int by_name(const void *a, const void *b)
{
    const struct file *left = a, *right = b;
    int order = strcmp(left->name, right->name);
    return order ? order : left->sampled - right->sampled;
}

static int by_self(const void *a, const void *b)
{
    const struct file *left = a, *right = b;
    if (left->self_ns != right->self_ns)
        return left->self_ns > right->self_ns ? -1 : 1;
    return by_name(a, b);
}

static int put_files(struct buf *out, const struct job_functions *functions, const struct mpi_report *mpi,
                     const struct sampled *sampled, struct err *err)
{
    size_t count = 0, used = 0, sites = mpi ? mpi->site_count : 0, samples = sampled ? sampled->count : 0;
    _cleanup_(freep) struct file *files = calloc(HASH_COUNT(functions->functions) + sites + samples + 1, sizeof *files);
    if (!files)
        return err_set(err, -ENOMEM, "out of memory");
    for (const struct job_function *each = functions->functions; each; each = each->hh.next)
        if (each->file[0])
            files[count++] = (struct file){each->file, 1, each->self_ns, false};
    for (size_t i = 0; i < sites; i++)
        if (mpi->sites[i].site->file[0]) /* of which no function may have been recorded */
            files[count++] = (struct file){mpi->sites[i].site->file, 0, 0, false};
    for (size_t i = 0; i < samples; i++)
        if (sampled->functions[i].file[0])
            files[count++] = (struct file){sampled->functions[i].file, 1,
                                           (double)view_samples_ns(sampled, sampled->functions[i].self), true};
    qsort(files, count, sizeof *files, by_name);
    for (size_t i = 0; i < count; i++)
        if (!used || strcmp(files[used - 1].name, files[i].name) != 0) {
            files[used++] = files[i];
        } else if (!files[i].sampled || files[used - 1].sampled || !files[used - 1].functions) {
            files[used - 1].functions += files[i].functions;
            files[used - 1].self_ns += files[i].self_ns;
            files[used - 1].sampled = files[i].sampled;
        }
    qsort(files, used, sizeof *files, by_self);
    buf_puts(out, "{\"files\":[");
    for (size_t i = 0; i < used && i < SOURCE_FILES; i++) {
        buf_puts(out, i ? ",{\"file\":" : "{\"file\":");
        view_put_text(out, files[i].name);
        buf_printf(out, ",\"functions\":%" PRIu64 ",\"self_ns\":%" PRId64 ",\"sampled\":%s}", files[i].functions,
                   view_ns(files[i].self_ns), files[i].sampled ? "true" : "false");
    }
    buf_puts(out, "]}");
    return 0;
}

static bool is_traced(const struct job_functions *functions, const char *file)
{
    for (const struct job_function *each = functions->functions; each; each = each->hh.next)
        if (strcmp(each->file, file) == 0)
            return true;
    return false;
}

static int put_source(struct view *view, const struct sampled *sampled, const char *file, struct buf *out,
                      struct err *err)
{
    char path[PATH_MAX];
    size_t size = 0;
    const char *why = NULL;
    if (!*file || !is_named(view, sampled, file))
        return err_set(err, -ENOENT, "no recorded function is in a file %.200s", file);
    _cleanup_(freep) char *text = read_source(view, file, path, &size, &why);
    buf_puts(out, "{\"file\":");
    view_put_text(out, file);
    buf_puts(out, ",\"path\":");
    view_put_text(out, text ? path : NULL);
    buf_puts(out, ",\"missing\":");
    view_put_text(out, text ? NULL : why);
    if (text)
        text[size] = '\0';
    put_lines(out, text, text ? size : 0);
    sampled = is_traced(view->report.functions, file) ? NULL : sampled;
    put_functions(out, view, sampled, file);
    put_times(out, sampled, file);
    buf_putc(out, '}');
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
    if (asked->file && !functions->sites_named && trace_names_sites(functions, view->job, &unnamed) == -ENOMEM)
        return err_set(err, -ENOMEM, "out of memory");
    struct sampled *sampled = NULL;
    if (sampled_read(&sampled, view->job, true) == -ENOMEM)
        return err_set(err, -ENOMEM, "out of memory");
    int code = asked->file ? put_source(view, sampled, asked->file, out, err)
                           : put_files(out, functions, view->report.mpi, sampled, err);
    sampled_free(sampled);
    return code;
}
