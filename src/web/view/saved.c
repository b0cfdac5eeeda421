/* SPDX-License-Identifier: Apache-2.0 */
#include "web/view/saved.h"

#include <errno.h>
#include <fts.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/data/cleanup.h"
#include "base/data/sum.h"
#include "base/system/file.h"
#include "jobdir/record/dir.h"

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
