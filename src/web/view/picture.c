/* SPDX-License-Identifier: Apache-2.0 */
#include "web/view/picture.h"

#include "base/data/cleanup.h"
#include "base/data/hash.h"
#include "base/system/file.h"
#include "jobdir/record/dir.h"
#include "jobdir/text/text.h"
#include "web/view/ask.h"

#include <errno.h>
#include <fts.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    SAVED_LEAST = 1 << 20,  /* bytes of traces: less is read as soon */
    SAVED_MOST = 256 << 20, /* bytes of a file */
};

static void whole_save(struct saving *saving, struct view *view);

#define SAVED_MAGIC "scrypict"
enum { SAVED_VERSION = 3 };

struct saved_head { /* then the parts */
    char magic[8];
    char scry[24];
    uint64_t version;
    uint64_t key;
    uint64_t size, sum; /* of the parts */
};

/* ---- bytes ---- */

void saved_bytes(struct saving *saving, void *bytes, size_t size)
{
    if (saving->out && !saving->failed)
        buf_append(saving->out, bytes, size);
    saved_check(saving, saving->out ? !saving->out->failed && saving->out->len <= SAVED_MOST : size <= saving->left);
    if (saving->out || saving->failed)
        return;
    memcpy(bytes, saving->in, size);
    saving->in += size;
    saving->left -= size;
}

void *saved_list(struct saving *saving, void *list, size_t *count, size_t item_size)
{
    SAVED(saving, *count);
    if (!saving->out) {
        saved_check(saving, *count <= saving->left / item_size);
        list = saving->failed || !*count ? NULL : malloc(*count * item_size);
        saved_check(saving, list || !*count);
    }
    if (list)
        saved_bytes(saving, list, *count * item_size);
    if (saving->failed && !saving->out)
        *count = 0;
    return list;
}

char *saved_text(struct saving *saving, const char *text)
{
    size_t size = saving->out ? strlen(text) + 1 : 0;
    char *as_saved = saved_list(saving, (char *)(uintptr_t)text, &size, 1);
    saved_check(saving, size && as_saved[size - 1] == '\0');
    return as_saved;
}

bool saved_flag(struct saving *saving, bool flag)
{
    unsigned char byte = flag;
    SAVED(saving, byte);
    return byte;
}

/* ---- the parts ---- */

/* Of something that is there already: so many there have to be. */
static void save_same(struct saving *saving, size_t count)
{
    size_t same = count;
    SAVED(saving, same);
    saved_check(saving, same == count);
}

static bool is_time(double ns)
{
    return isfinite(ns) && fabs(ns) <= (double)TIMELINE_LIMIT_NS;
}

static void save_timeline(struct saving *saving, struct timeline *timeline)
{
    save_same(saving, timeline->host_count);
    for (size_t i = 0; i < timeline->host_count && !saving->failed; i++) {
        struct timeline_host *host = &timeline->hosts[i];
        double *const times[] = {&host->offset_start_ns, &host->offset_end_ns, &host->start_ns, &host->end_ns,
                                 &host->bound_ns};
        SAVED(saving, host->how);
        saved_check(saving, host->how <= TIMELINE_KNOWN);
        for (size_t k = 0; k < sizeof times / sizeof *times; k++) {
            SAVED(saving, *times[k]);
            saved_check(saving, is_time(*times[k]));
        }
        /* no clock is that fast: from it follows a time for every moment */
        double span = host->end_ns - host->start_ns;
        saved_check(saving, span <= 0 || (span >= 1 && fabs(host->offset_end_ns - host->offset_start_ns) <= span));
    }
    save_same(saving, timeline->trace_count);
    for (size_t i = 0; i < timeline->trace_count && !saving->failed; i++) {
        struct timeline_trace *trace = &timeline->traces[i];
        trace->knots = saved_list(saving, trace->knots, &trace->knot_count, sizeof *trace->knots);
        for (size_t k = 0; k < trace->knot_count; k++)
            saved_check(saving, is_time((double)trace->knots[k].at) && is_time((double)trace->knots[k].shift));
    }
}

static void save_functions(struct saving *saving, struct view *view)
{
    size_t count = view->function_count;
    SAVED(saving, count);
    for (size_t i = 0; i < count && !saving->failed; i++) {
        struct view_function as_saved = saving->out ? *view->function_list[i] : (struct view_function){0};
        _cleanup_(freep) char *name = saved_text(saving, as_saved.name), *file = saved_text(saving, as_saved.file);
        SAVED(saving, as_saved.line);
        SAVED(saving, as_saved.class);
        SAVED(saving, as_saved.valued);
        saved_check(saving, as_saved.class < VIEW_CLASSES && as_saved.valued <= 1);
        if (saving->out) { /* nothing of it is ours */
            name = file = NULL;
            continue;
        }
        struct view_function *function = saving->failed ? NULL : view_function_named(view, name, file, as_saved.line);
        saved_check(saving, function && function->number == i);
        if (function) {
            function->class = as_saved.class;
            function->valued = as_saved.valued;
        }
    }
}

static void save_notes(struct saving *saving, struct view *view)
{
    size_t size = view->notes.len;
    _cleanup_(freep) char *notes = NULL;
    if (saving->out) {
        saved_list(saving, view->notes.data, &size, 1);
        return;
    }
    notes = saved_list(saving, NULL, &size, 1);
    saved_check(saving, !size || notes[size - 1] == '\0');
    for (size_t at = 0; at < size && !saving->failed; at += strlen(notes + at) + 1)
        view_note(view, notes + at);
}

static void save_all(struct saving *saving, struct view *view)
{
    save_timeline(saving, &view->timeline);
    SAVED(saving, view->from_ns);
    SAVED(saving, view->to_ns);
    saved_check(saving, view->from_ns >= -TIMELINE_LIMIT_NS && view->from_ns < view->to_ns &&
                            view->to_ns <= TIMELINE_LIMIT_NS + 1);
    save_functions(saving, view);
    pyramid_save(saving, &view->pyramid);
    save_same(saving, view->lane_count);
    for (size_t i = 0; i < view->lane_count && !saving->failed; i++)
        lane_save(saving, view, view->lane_list[i]);
    lines_save(saving, view);
    save_notes(saving, view);
    whole_save(saving, view);
}

/* ---- files ---- */

static int by_path(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

uint64_t saved_key(const struct view *view)
{
    /* what is written into a directory later, as a report, says nothing of its pictures */
    static const char *const parts[] = {"clock.json", "job.json", "parts", "spool", "stats", "trace"};
    uint64_t key = sum_add(0, view->report.info.id, strlen(view->report.info.id));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char path[PATH_MAX + 16];
        snprintf(path, sizeof path, "%s/%s", view->job, parts[i]);
        char *paths[] = {path, NULL};
        FTS *tree = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, by_path);
        for (FTSENT *entry; tree && (entry = fts_read(tree));) {
            const struct stat *of = entry->fts_statp;
            if (entry->fts_info != FTS_F)
                continue;
            const uint64_t numbers[] = {(uint64_t)of->st_size,         (uint64_t)of->st_mtim.tv_sec,
                                        (uint64_t)of->st_mtim.tv_nsec, (uint64_t)of->st_ctim.tv_sec,
                                        (uint64_t)of->st_ctim.tv_nsec, of->st_mode};
            const char *name = entry->fts_path + strlen(view->job);
            key = sum_add(sum_add(key, name, strlen(name)), numbers, sizeof numbers);
        }
        if (tree)
            fts_close(tree);
    }
    return key;
}

static struct saved_head head_of(uint64_t key, const char *parts, size_t size)
{
    struct saved_head head = {
        .magic = SAVED_MAGIC, .version = SAVED_VERSION, .key = key, .size = size, .sum = sum_add(key, parts, size)};
    snprintf(head.scry, sizeof head.scry, "%s", SCRY_VERSION);
    return head;
}

int saved_put(struct buf *out, struct view *view)
{
    struct saving saving = {.out = out};
    save_all(&saving, view);
    return saving.failed ? -EFBIG : 0;
}

int saved_take(struct view *view, const char *bytes, size_t size)
{
    struct saving saving = {.in = bytes, .left = size};
    save_all(&saving, view);
    if (saving.failed || saving.left)
        return -EBADMSG;
    view->until_ns = view->to_ns;
    view->progress = 1;
    view->complete = view->messages_done = true;
    return 1;
}

int saved_read(struct view *view)
{
    char path[PATH_MAX];
    _cleanup_(freep) char *bytes = NULL;
    size_t size;
    struct saved_head head, right;
    if (view->bytes < SAVED_LEAST || picture_file_path(view->job, false, path, sizeof path, NULL) < 0 ||
        file_read_plain(path, &bytes, &size) < 0 || size < sizeof head)
        return 0;
    memcpy(&head, bytes, sizeof head);
    right = head_of(view->key, bytes + sizeof head, size - sizeof head);
    return memcmp(&head, &right, sizeof head) == 0 ? saved_take(view, bytes + sizeof head, size - sizeof head) : 0;
}

void saved_write(struct view *view, uint64_t most_bytes)
{
    char path[PATH_MAX];
    _cleanup_(buf_done) struct buf parts = BUF_INIT;
    if (view->running || !view->complete || !view->messages_done || view->bytes < SAVED_LEAST || !most_bytes)
        return;
    if (saved_put(&parts, view) < 0 || parts.len + sizeof(struct saved_head) > most_bytes ||
        saved_key(view) != view->key || picture_file_path(view->job, true, path, sizeof path, NULL) < 0)
        return;
    struct saved_head head = head_of(view->key, parts.data, parts.len);
    const struct iovec pieces[] = {{&head, sizeof head}, {parts.data, parts.len}};
    cache_file_write(path, pieces, sizeof pieces / sizeof *pieces, most_bytes, NULL, NULL, NULL);
}

/* What a space-time picture begins with: its window, lanes and functions. */

static void put_label(struct buf *out, const struct view *view, const struct view_lane *lane)
{
    const struct trace *trace = view->list[lane->key.trace];
    char label[128], own[32];
    const char *exe = trace_value(trace, "exe");
    bool first = lane->key.tid == (uint32_t)trace_pid(trace);
    if (lane->rank >= 0) {
        snprintf(own, sizeof own, " of program %" PRIu32, lane->world + 1);
        snprintf(label, sizeof label, "rank %" PRId32 "%s", lane->rank, view->programs.count > 1 ? own : "");
    } else {
        snprintf(own, sizeof own, ", thread %" PRIu32, lane->key.tid);
        snprintf(label, sizeof label, "%.60s %d%s", exe ? text_base(exe) : "process", (int)trace_pid(trace),
                 first ? "" : own);
    }
    view_put_text(out, label);
}

static void put_lane(struct buf *out, const struct view *view, const struct view_lane *lane)
{
    const struct trace *trace = view->list[lane->key.trace];
    buf_printf(out, "%s{\"lane\":%" PRIu32 ",\"label\":", lane->number ? "," : "", lane->number);
    put_label(out, view, lane);
    if (lane->rank >= 0)
        buf_printf(out, ",\"rank\":%" PRId32 ",\"world\":%" PRIu32, lane->rank, lane->world);
    else
        buf_puts(out, ",\"rank\":null,\"world\":null");
    buf_puts(out, ",\"node\":");
    view_put_text(out, trace_node(trace));
    buf_printf(out,
               ",\"pid\":%d,\"thread\":%" PRIu32 ",\"depth\":%" PRIu32 ",\"calls\":%" PRIu64 ",\"from_ns\":%" PRId64
               ",\"to_ns\":%" PRId64 "}",
               (int)trace_pid(trace), lane->key.tid, lane->depth, lane->calls, lane->from_ns, lane->to_ns);
}

static void put_functions(struct buf *out, const struct view *view)
{
    buf_puts(out, "\"functions\":[");
    for (size_t i = 0; i < view->function_count; i++) {
        const struct view_function *function = view->function_list[i];
        buf_printf(out, "%s{\"id\":%zu,\"name\":", i ? "," : "", i);
        view_put_text(out, function->name);
        buf_puts(out, ",\"file\":");
        view_put_text(out, function->file);
        buf_printf(out, ",\"line\":%" PRIu32 ",\"class\":\"%s\"%s}", function->line, view_class_name(function->class),
                   function->valued ? ",\"values\":true" : "");
    }
    buf_putc(out, ']');
}

/* How far the clocks of two nodes may be apart at most, as far as that is known. */
static void put_clocks(struct buf *out, const struct view *view)
{
    const struct timeline *timeline = &view->timeline;
    double bound = 0;
    bool known = true;
    for (size_t i = 0; timeline->host_count > 1 && i < timeline->host_count; i++) {
        known = known && timeline->hosts[i].bound_ns >= 0;
        bound = timeline->hosts[i].bound_ns > bound ? timeline->hosts[i].bound_ns : bound;
    }
    if (known)
        buf_printf(out, "\"clock_bound_ns\":%.0f", bound);
    else
        buf_puts(out, "\"clock_bound_ns\":null");
}

int answer_picture(struct view *view, const struct asked *asked, struct buf *out, struct err *err)
{
    uint64_t messages, collectives;
    (void)asked, (void)err;
    buf_printf(out, "{\"from_ns\":%" PRId64 ",\"to_ns\":%" PRId64 ",\"levels\":%u,\"columns\":%d,\"lanes\":[",
               view->from_ns, view->to_ns, tile_levels(view), PYRAMID_COLUMNS);
    for (size_t i = 0; i < view->lane_count; i++)
        put_lane(out, view, view->lane_list[i]);
    buf_puts(out, "],");
    put_functions(out, view);
    buf_putc(out, ',');
    put_clocks(out, view);
    lines_count(view, &messages, &collectives);
    buf_printf(out, ",\"messages\":%" PRIu64 ",\"collectives\":%" PRIu64, messages, collectives);
    buf_printf(out, ",\"complete\":%s,\"progress\":%.3f,\"running\":%s,\"until_ns\":%" PRId64 ",\"notes\":",
               view->complete && view->messages_done ? "true" : "false", view->progress,
               view->running ? "true" : "false", view->running ? view->until_ns : view->to_ns);
    view_put_notes(out, view);
    buf_putc(out, '}');
    return 0;
}

/* Pieces of answers. */

static int saved_append(const char *bytes, size_t size, void *ctx)
{
    buf_append(ctx, bytes, size);
    return 0;
}

void view_put_text(struct buf *out, const char *text)
{
    json_t *string = text_json(text);
    if (!string || json_dump_callback(string, saved_append, out, JSON_ENCODE_ANY | JSON_COMPACT) < 0)
        out->failed = true;
    json_decref(string);
}

void view_put_notes(struct buf *out, const struct view *view)
{
    const char *at = view->notes.data;
    buf_putc(out, '[');
    for (size_t left = view->notes.len; left;) {
        size_t size = strlen(at) + 1;
        buf_puts(out, at == view->notes.data ? "" : ",");
        view_put_text(out, at);
        at += size;
        left -= size;
    }
    buf_putc(out, ']');
}

/* Answers about a whole job that is over: they take a pass over its traces, and stay as they are. */

enum { WHOLE_MOST = 16, WHOLE_BYTES = 32 << 20 /* of all together */ };

struct whole {
    struct whole_answer {
        char *question, *text;
    } list[WHOLE_MOST];
    size_t count, bytes;
};

/* The question by its name and limit, malloc'ed. NULL: it is of a part, or not kept. */
static char *key_of(const struct view *view, const struct question *question, const struct asked *asked)
{
    char *key;
    const char *member;
    json_t *value;
    if (view->running || !question->whole)
        return NULL;
    json_object_foreach(asked->json, member, value)
    {
        if (strcmp(member, "id") != 0 && strcmp(member, "ask") != 0 && strcmp(member, "limit") != 0)
            return NULL;
    }
    return asprintf(&key, "%s %" PRId64, question->name, asked->limit) < 0 ? NULL : key;
}

const char *whole_find(const struct view *view, const struct question *question, const struct asked *asked)
{
    _cleanup_(freep) char *key = view->whole ? key_of(view, question, asked) : NULL;
    for (size_t i = 0; key && i < view->whole->count; i++)
        if (strcmp(view->whole->list[i].question, key) == 0)
            return view->whole->list[i].text;
    return NULL;
}

static void whole_add(struct view *view, char *key_take, char *text_take)
{
    size_t size = strlen(key_take) + strlen(text_take);
    if (!view->whole)
        view->whole = calloc(1, sizeof *view->whole);
    struct whole *whole = view->whole;
    if (!whole || whole->count == WHOLE_MOST || size > WHOLE_BYTES - whole->bytes) {
        free(key_take);
        free(text_take);
        return;
    }
    whole->list[whole->count++] = (struct whole_answer){key_take, text_take};
    whole->bytes += size;
}

void whole_keep(struct view *view, const struct question *question, const struct asked *asked, const char *text,
                size_t len)
{
    char *key = key_of(view, question, asked), *copy = key ? strndup(text, len) : NULL;
    if (copy)
        whole_add(view, key, copy);
    else
        free(key);
}

size_t whole_count(const struct view *view)
{
    return view->whole ? view->whole->count : 0;
}

/* It is printed as it is: one line of JSON. */
static bool is_answer(const char *text)
{
    json_t *json = strchr(text, '\n') ? NULL : json_loads(text, 0, NULL);
    bool is = json_is_object(json);
    json_decref(json);
    return is;
}

static void whole_save(struct saving *saving, struct view *view)
{
    size_t count = whole_count(view);
    SAVED(saving, count);
    for (size_t i = 0; i < count && !saving->failed; i++) {
        const struct whole_answer *as_saved = saving->out ? &view->whole->list[i] : &(struct whole_answer){0};
        char *key = saved_text(saving, as_saved->question), *text = saved_text(saving, as_saved->text);
        if (saving->out)
            continue;
        saved_check(saving, !saving->failed && is_answer(text));
        if (!saving->failed) {
            whole_add(view, key, text);
            continue;
        }
        free(key);
        free(text);
    }
}

void whole_free(struct view *view)
{
    for (size_t i = 0; i < whole_count(view); i++) {
        free(view->whole->list[i].question);
        free(view->whole->list[i].text);
    }
    free(view->whole);
    view->whole = NULL;
}
