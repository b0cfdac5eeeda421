/* SPDX-License-Identifier: Apache-2.0 */
#include "job/scripts/shell.h"

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "job/observe/script_rings.h"
#include "jobdir/text/text.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>

enum {
    LINES_SHOWN = 200,
    OFTEN = 200,          /* records of lines of one shell: then one a second, */
    SELDOM = 2000,        /* then one in ten seconds */
    FAILURES_MOST = 2000, /* of a shell */
};

/* A shell with its subshells. */
struct script {
    pid_t pid;
    char *file; /* NULL: it has not begun */
    uint64_t began_ns, record_ns, now_ns;
    unsigned records, failures;
    uint32_t now; /* the sum of the line that was told last, or where it was found */
    UT_hash_handle hh;
};

struct shell_inside {
    struct observer *observer;
    struct script_rings *rings;
    struct script *scripts; /* hash by pid */
    pid_t ending;           /* the process that ends; 0: none */
    bool told;              /* a script_end of it */
    int32_t status;         /* its status, as $? */
    double end;             /* and when, in seconds since the start of the job */
};

/* ---- records ---- */

static struct line_fields line_of(const struct script_event *event, char *texts[3])
{
    texts[0] = script_text_copy(&event->texts[SCRIPT_FILE]);
    texts[1] = script_text_copy(&event->texts[SCRIPT_FUNCTION]);
    texts[2] = script_text_copy(&event->texts[SCRIPT_COMMAND]);
    return (struct line_fields){.pid = event->pid,
                                .language = "bash",
                                .file = texts[0] ? texts[0] : "",
                                .line = event->line,
                                .function = texts[1] && *texts[1] ? texts[1] : NULL,
                                .command = texts[2] && *texts[2] ? texts[2] : NULL};
}

static bool is_due(struct script *script, uint64_t now_ns)
{
    uint64_t gap = script->records < OFTEN ? 0 : (script->records < SELDOM ? 1 : 10) * (uint64_t)NS_PER_SECOND;
    if (script->record_ns + gap > now_ns)
        return false;
    script->records++;
    script->record_ns = now_ns;
    return true;
}

static void on_line(struct shell_inside *inside, struct script *script, const struct script_event *event)
{
    char *texts[3];
    if (!is_due(script, clock_now_ns()))
        return;
    struct line_fields at = line_of(event, texts);
    observe_put(inside->observer, RECORD(script_line, .at = at, .how = "inside",
                                         .time = observe_seconds(inside->observer, event->time_ns)));
    for (int i = 0; i < 3; i++)
        free(texts[i]);
}

/* "1 0" as [1, 0]; NULL: none. A new reference. */
static json_t *stages_of(const struct script_event *event)
{
    _cleanup_(freep) char *text = script_text_copy(&event->texts[SCRIPT_MESSAGE]);
    json_t *stages = text && *text ? json_array() : NULL;
    char *rest = NULL;
    for (const char *word = text ? strtok_r(text, " ", &rest) : NULL; word; word = strtok_r(NULL, " ", &rest))
        json_array_append_new(stages, json_integer(atoi(word)));
    return stages;
}

static void on_failed(struct shell_inside *inside, struct script *script, const struct script_event *event)
{
    char *texts[3];
    if (script->failures++ >= FAILURES_MOST)
        return;
    struct line_fields at = line_of(event, texts);
    json_t *stack = event->frame_count ? script_frames_json(event) : NULL, *stages = stages_of(event);
    observe_put(inside->observer, RECORD(command_failed, .at = at, .status = event->status, .stack = stack,
                                         .stages = stages, .seconds = (double)event->duration_ns / NS_PER_SECOND,
                                         .time = observe_seconds(inside->observer, event->time_ns)));
    json_decref(stack);
    json_decref(stages);
    for (int i = 0; i < 3; i++)
        free(texts[i]);
}

static void on_record(void *ctx, struct script_rings_ring *ring, const struct script_event *event)
{
    struct shell_inside *inside = ctx;
    struct script *script = ring->own;
    if (!script)
        return;
    if (event->kind == SCRIPT_STARTED && !script->file && event->texts[SCRIPT_FILE].size) {
        script->file = script_text_copy(&event->texts[SCRIPT_FILE]);
        script->began_ns = event->time_ns;
    } else if (event->kind == SCRIPT_LINE) {
        on_line(inside, script, event);
    } else if (event->kind == SCRIPT_FAILED) {
        on_failed(inside, script, event);
    } else if (event->kind == SCRIPT_STEPPED_ASIDE) {
        script_rings_note_aside(inside->rings, ring, event);
    }
}

/* ---- sums ---- */

struct line {
    uint32_t index;
    uint64_t total_ns;
};

static int by_time(const void *left, const void *right)
{
    const struct line *one = left, *other = right;
    if (one->total_ns != other->total_ns)
        return one->total_ns < other->total_ns ? 1 : -1;
    return one->index < other->index ? -1 : one->index > other->index;
}

static struct line *lines_of(const struct script_rings_ring *ring, size_t *ret_count)
{
    uint32_t sums = script_view_sums(ring->view);
    struct line *lines = calloc(sums ? sums : 1, sizeof *lines);
    struct script_sum_copy sum;
    *ret_count = 0;
    for (uint32_t i = 0; lines && i < sums; i++)
        if (script_view_sum(ring->view, i, false, &sum) && sum.kind == SCRIPT_SUM_LINE && sum.count)
            lines[(*ret_count)++] = (struct line){i, sum.total_ns};
    if (lines)
        qsort(lines, *ret_count, sizeof *lines, by_time);
    return lines;
}

static json_t *lines_json(const struct script_rings_ring *ring)
{
    struct script_sum_copy sum;
    char command[SCRIPT_NAME_MOST];
    size_t count;
    _cleanup_(freep) struct line *lines = lines_of(ring, &count);
    json_t *list = json_array();
    for (size_t i = 0; lines && i < count && i < LINES_SHOWN; i++) {
        if (!script_view_sum(ring->view, lines[i].index, true, &sum))
            continue;
        script_view_command(ring->view, lines[i].index, command);
        json_t *row = json_pack("{s:o, s:i, s:I, s:I, s:f}", "file", text_json(sum.file), "line", (int)sum.line,
                                "count", (json_int_t)sum.count, "failed", (json_int_t)sum.failed, "seconds",
                                (double)sum.total_ns / NS_PER_SECOND);
        if (command[0])
            json_object_set_new(row, "command", text_json(command));
        json_array_append_new(list, row);
    }
    return list;
}

/* Not each line comes as a record: where it stays is told anyway. */
static void on_looked(void *ctx, struct script_rings_ring *ring)
{
    struct shell_inside *inside = ctx;
    struct script *script = ring->own;
    struct script_sum_copy sum;
    if (!script)
        return;
    uint32_t now = script_view_now(ring->view);
    uint64_t now_ns = clock_now_ns();
    if (now != script->now) {
        script->now = now;
        script->now_ns = now_ns;
        return;
    }
    if (!script->now_ns || now_ns - script->now_ns < NS_PER_SECOND || script->record_ns > script->now_ns ||
        !script_view_sum(ring->view, now, true, &sum) || !is_due(script, now_ns))
        return;
    script->now_ns = 0; /* told; which of the line's commands it is, is not known */
    observe_put(inside->observer, RECORD(script_line,
                                         .at = {.pid = ring->pid,
                                                .language = "bash",
                                                .file = sum.file,
                                                .line = sum.line,
                                                .function = sum.function[0] ? sum.function : NULL},
                                         .how = "inside", .time = -1));
}

/* ---- a shell ---- */

static void on_began(void *ctx, struct script_rings_ring *ring)
{
    struct shell_inside *inside = ctx;
    struct script *script = calloc(1, sizeof *script), *before;
    ring->own = script;
    if (!script)
        return;
    *script = (struct script){.pid = ring->pid, .now = UINT32_MAX};
    HASH_FIND_INT(inside->scripts, &ring->pid, before);
    if (before)
        HASH_DEL(inside->scripts, before); /* its end is told, too: the process executes something else */
    HASH_ADD_INT(inside->scripts, pid, script);
}

static void on_ended(void *ctx, struct script_rings_ring *ring)
{
    struct shell_inside *inside = ctx;
    struct script *script = ring->own, *found;
    if (!script)
        return;
    HASH_FIND_INT(inside->scripts, &script->pid, found);
    if (found == script)
        HASH_DEL(inside->scripts, script);
    if (script->file) {
        json_t *lines = lines_json(ring);
        bool known = inside->ending == script->pid;
        inside->told |= known;
        double began = observe_seconds(inside->observer, script->began_ns);
        double end = known ? inside->end : observe_seconds(inside->observer, clock_now_ns());
        observe_put(inside->observer,
                    RECORD(script_end, .pid = script->pid, .file = script->file, .status = known ? inside->status : -1,
                           .seconds = end > began ? end - began : 0, .how = "inside", .lines = lines));
        json_decref(lines);
    }
    uint64_t dropped = ring->view->ring->dropped, sums = ring->view->ring->sums_dropped;
    if (dropped || sums || ring->view->damaged)
        observe_note(inside->observer,
                     NOTE(script_dropped, .pid = (uint64_t)ring->pid, .file = script->file ? script->file : "",
                          .records = dropped + ring->view->damaged, .sums = sums));
    free(script->file);
    free(script);
}

static const struct script_rings_use use = {
    .language = "bash", .began = on_began, .record = on_record, .looked = on_looked, .ended = on_ended};

/* ---- all of them ---- */

struct shell_inside *shell_inside_new(struct observer *observer, struct err *err)
{
    struct shell_inside *inside = calloc(1, sizeof *inside);
    if (!inside) {
        err_set(err, -ENOMEM, "out of memory");
        return NULL;
    }
    inside->observer = observer;
    inside->rings = script_rings_new(observer, &use, inside, err);
    if (inside->rings)
        return inside;
    free(inside);
    return NULL;
}

bool shell_inside_has(const struct shell_inside *inside, pid_t pid)
{
    struct script *script = NULL;
    if (inside)
        HASH_FIND_INT(inside->scripts, &pid, script);
    return script && script->file;
}

void shell_inside_process(struct shell_inside *inside, pid_t pid)
{
    if (inside)
        script_rings_process_changed(inside->rings, pid, false);
}

bool shell_inside_process_ended(struct shell_inside *inside, const struct observed_process *process)
{
    if (!inside)
        return false;
    int status = process->status;
    inside->status = status < 0 ? -1 : WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    inside->end = process->end;
    inside->ending = process->pid;
    inside->told = false;
    script_rings_process_changed(inside->rings, process->pid, true);
    inside->ending = 0;
    return inside->told;
}

void shell_inside_free(struct shell_inside *inside)
{
    if (!inside)
        return;
    script_rings_free(inside->rings);
    free(inside);
}
