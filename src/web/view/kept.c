/* SPDX-License-Identifier: Apache-2.0 */
#include "web/view/kept.h"

#include <errno.h>
#include <fts.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/data/cleanup.h"
#include "base/data/sum.h"
#include "base/system/cache_file.h"
#include "base/system/dirs.h"
#include "jobdir/record/picture_file.h"

#define KEPT_MAGIC "scrypict"
enum { KEPT_VERSION = 1 };

struct kept_head { /* then the parts */
    char magic[8];
    char scry[24];
    uint64_t version;
    uint64_t key;
    uint64_t size, sum; /* of the parts */
};

/* ---- bytes ---- */

void kept_bytes(struct keeping *kept, void *bytes, size_t size)
{
    if (kept->out && !kept->failed)
        buf_append(kept->out, bytes, size);
    kept_check(kept, kept->out ? !kept->out->failed && kept->out->len <= KEPT_MOST : size <= kept->left);
    if (kept->out || kept->failed)
        return;
    memcpy(bytes, kept->in, size);
    kept->in += size;
    kept->left -= size;
}

void *kept_list(struct keeping *kept, void *list, size_t *count, size_t item_size)
{
    KEPT(kept, *count);
    if (!kept->out) {
        kept_check(kept, *count <= kept->left / item_size);
        list = kept->failed || !*count ? NULL : malloc(*count * item_size);
        kept_check(kept, list || !*count);
    }
    if (list)
        kept_bytes(kept, list, *count * item_size);
    if (kept->failed && !kept->out)
        *count = 0;
    return list;
}

char *kept_text(struct keeping *kept, const char *text)
{
    size_t size = kept->out ? strlen(text) + 1 : 0;
    char *kept_as = kept_list(kept, (char *)(uintptr_t)text, &size, 1);
    kept_check(kept, size && kept_as[size - 1] == '\0');
    return kept_as;
}

bool kept_flag(struct keeping *kept, bool flag)
{
    unsigned char byte = flag;
    KEPT(kept, byte);
    return byte;
}

/* ---- the parts ---- */

/* Of something that is there already: so many there have to be. */
static void keep_same(struct keeping *kept, size_t count)
{
    size_t same = count;
    KEPT(kept, same);
    kept_check(kept, same == count);
}

static bool is_time(double ns)
{
    return isfinite(ns) && fabs(ns) <= (double)TIMELINE_LIMIT_NS;
}

static void keep_timeline(struct keeping *kept, struct timeline *timeline)
{
    keep_same(kept, timeline->host_count);
    for (size_t i = 0; i < timeline->host_count && !kept->failed; i++) {
        struct timeline_host *host = &timeline->hosts[i];
        double *const times[] = {&host->offset_start_ns, &host->offset_end_ns, &host->start_ns, &host->end_ns,
                                 &host->bound_ns};
        KEPT(kept, host->how);
        kept_check(kept, host->how <= TIMELINE_KNOWN);
        for (size_t k = 0; k < sizeof times / sizeof *times; k++) {
            KEPT(kept, *times[k]);
            kept_check(kept, is_time(*times[k]));
        }
        /* no clock is that fast: from it follows a time for every moment */
        double span = host->end_ns - host->start_ns;
        kept_check(kept, span <= 0 || (span >= 1 && fabs(host->offset_end_ns - host->offset_start_ns) <= span));
    }
    keep_same(kept, timeline->trace_count);
    for (size_t i = 0; i < timeline->trace_count && !kept->failed; i++) {
        struct timeline_trace *trace = &timeline->traces[i];
        trace->knots = kept_list(kept, trace->knots, &trace->knot_count, sizeof *trace->knots);
        for (size_t k = 0; k < trace->knot_count; k++)
            kept_check(kept, is_time((double)trace->knots[k].at) && is_time((double)trace->knots[k].shift));
    }
}

static void keep_functions(struct keeping *kept, struct view *view)
{
    size_t count = view->function_count;
    KEPT(kept, count);
    for (size_t i = 0; i < count && !kept->failed; i++) {
        struct view_function kept_as = kept->out ? *view->function_list[i] : (struct view_function){0};
        _cleanup_(freep) char *name = kept_text(kept, kept_as.name), *file = kept_text(kept, kept_as.file);
        KEPT(kept, kept_as.line);
        KEPT(kept, kept_as.class);
        kept_check(kept, kept_as.class < VIEW_CLASSES);
        if (kept->out) { /* nothing of it is ours */
            name = file = NULL;
            continue;
        }
        struct view_function *function = kept->failed ? NULL : view_function_named(view, name, file, kept_as.line);
        kept_check(kept, function && function->number == i);
        if (function)
            function->class = kept_as.class;
    }
}

static void keep_notes(struct keeping *kept, struct view *view)
{
    size_t size = view->notes.len;
    _cleanup_(freep) char *notes = NULL;
    if (kept->out) {
        kept_list(kept, view->notes.data, &size, 1);
        return;
    }
    notes = kept_list(kept, NULL, &size, 1);
    kept_check(kept, !size || notes[size - 1] == '\0');
    for (size_t at = 0; at < size && !kept->failed; at += strlen(notes + at) + 1)
        view_note(view, notes + at);
}

static void keep_all(struct keeping *kept, struct view *view)
{
    keep_timeline(kept, &view->timeline);
    KEPT(kept, view->from_ns);
    KEPT(kept, view->to_ns);
    kept_check(kept, view->from_ns >= -TIMELINE_LIMIT_NS && view->from_ns < view->to_ns &&
                         view->to_ns <= TIMELINE_LIMIT_NS + 1);
    keep_functions(kept, view);
    pyramid_keep(kept, &view->pyramid);
    keep_same(kept, view->lane_count);
    for (size_t i = 0; i < view->lane_count && !kept->failed; i++)
        lane_keep(kept, view, view->lane_list[i]);
    lines_keep(kept, view);
    keep_notes(kept, view);
}

/* ---- files ---- */

static int by_path(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

uint64_t kept_key(const struct view *view)
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

static struct kept_head head_of(uint64_t key, const char *parts, size_t size)
{
    struct kept_head head = {
        .magic = KEPT_MAGIC, .version = KEPT_VERSION, .key = key, .size = size, .sum = sum_add(key, parts, size)};
    snprintf(head.scry, sizeof head.scry, "%s", SCRY_VERSION);
    return head;
}

int kept_put(struct buf *out, struct view *view)
{
    struct keeping kept = {.out = out};
    keep_all(&kept, view);
    return kept.failed ? -EFBIG : 0;
}

int kept_take(struct view *view, const char *bytes, size_t size)
{
    struct keeping kept = {.in = bytes, .left = size};
    keep_all(&kept, view);
    if (kept.failed || kept.left)
        return -EBADMSG;
    view->until_ns = view->to_ns;
    view->progress = 1;
    view->complete = view->messages_done = true;
    return 1;
}

int kept_read(struct view *view)
{
    char path[PATH_MAX];
    _cleanup_(freep) char *bytes = NULL;
    size_t size;
    struct kept_head head, right;
    if (view->bytes < KEPT_LEAST || picture_file_path(view->job, false, path, sizeof path, NULL) < 0 ||
        file_read_plain(path, &bytes, &size) < 0 || size < sizeof head)
        return 0;
    memcpy(&head, bytes, sizeof head);
    right = head_of(view->key, bytes + sizeof head, size - sizeof head);
    return memcmp(&head, &right, sizeof head) == 0 ? kept_take(view, bytes + sizeof head, size - sizeof head) : 0;
}

void kept_write(struct view *view)
{
    char path[PATH_MAX];
    _cleanup_(buf_done) struct buf parts = BUF_INIT;
    if (view->running || !view->complete || !view->messages_done || view->bytes < KEPT_LEAST)
        return;
    if (kept_put(&parts, view) < 0 || kept_key(view) != view->key ||
        picture_file_path(view->job, true, path, sizeof path, NULL) < 0)
        return;
    struct kept_head head = head_of(view->key, parts.data, parts.len);
    const struct iovec pieces[] = {{&head, sizeof head}, {parts.data, parts.len}};
    cache_file_write(path, pieces, sizeof pieces / sizeof *pieces, NULL, NULL, NULL);
}
