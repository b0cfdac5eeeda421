/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/cleanup.h"
#include "jobdir/text/text.h"
#include "web/view/ask.h"
#include "web/view/saved.h"
#include "web/view/view.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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
    buf_printf(out, ",\"pid\":%d,\"thread\":%" PRIu32 ",\"depth\":%" PRIu32 ",\"calls\":%" PRIu64 "}",
               (int)trace_pid(trace), lane->key.tid, lane->depth, lane->calls);
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

static int append(const char *bytes, size_t size, void *ctx)
{
    buf_append(ctx, bytes, size);
    return 0;
}

void view_put_text(struct buf *out, const char *text)
{
    json_t *string = text_json(text);
    if (!string || json_dump_callback(string, append, out, JSON_ENCODE_ANY | JSON_COMPACT) < 0)
        out->failed = true;
    json_decref(string);
}

void view_put_member(struct buf *out, bool *first, const char *name)
{
    buf_printf(out, "%s\"%s\":", *first ? "" : ",", name);
    *first = false;
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

static void add(struct view *view, char *key_take, char *text_take)
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
        add(view, key, copy);
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

void whole_save(struct saving *saving, struct view *view)
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
            add(view, key, text);
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
