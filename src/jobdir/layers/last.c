/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/layers/last.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "jobdir/layers/cause_internal.h"
#include "jobdir/layers/culprit.h"
#include "jobdir/layers/starter.h"
#include "jobdir/text/fields.h"
#include "jobdir/text/text.h"

enum {
    SUMMARY_EVENTS = 6,
    REPORT_EVENTS = 40,
    JSON_EVENTS = 200,
    STACK_FRAMES = 6,
    OTHERS_FAILED = 100,
    TEXT_COLUMNS = 200
};
static const double WINDOW_SECONDS = 60, AT_END_SECONDS = 2;
static const double SAID_SECONDS = 5; /* before the end: what the reason says is told once, not when it was, too */

/* What says more about a failure is shown where there is no room for all. */
enum weight { WEIGHT_ASIDE, WEIGHT_PLACE, WEIGHT_HINT, WEIGHT_TROUBLE, WEIGHT_FAILURE };

struct event {
    double seconds, at; /* at: what was seen only afterwards was there at the end */
    enum weight weight;
    enum record_stream stream;
    size_t order;
    struct buf text;
    const json_t *seq; /* NULL: of no record */
    json_t *stack;     /* of texts; NULL: none */
};

struct events {
    const struct job_end *end;
    struct event *list;
    size_t count, room;
};

static void events_done(struct events *events)
{
    for (size_t i = 0; i < events->count; i++) {
        buf_done(&events->list[i].text);
        json_decref(events->list[i].stack);
    }
    free(events->list);
}

/* NULL: out of memory. */
static struct event *event_add(struct events *events, enum record_stream stream, double seconds, enum weight weight)
{
    if (!GROW(events->list, events->count, events->room))
        return NULL;
    struct event *event = &events->list[events->count];
    double end = events->end->seconds;
    *event = (struct event){.seconds = seconds,
                            .at = seconds < end ? seconds : end,
                            .weight = weight,
                            .stream = stream,
                            .order = events->count};
    events->count++;
    return event;
}

/* What scry watch says of it. */
static struct event *add_record(struct events *events, const json_t *record, enum weight weight)
{
    enum record_type type = record_type(record);
    if (type == RECORD_TYPES)
        return NULL;
    pid_t pid = (pid_t)json_integer_value(json_object_get(record, "pid"));
    double seconds = record_seconds(record);
    struct event *event = event_add(events, record_kinds[type].stream,
                                    pid > 0 ? cause_before_end(events->end, pid, seconds) : seconds, weight);
    if (!event)
        return NULL;
    record_text(&event->text, record);
    event->seq = json_object_get(record, "seq");
    return event;
}

static bool in_window(const struct events *events, const json_t *record)
{
    return record_seconds(record) >= events->end->seconds - WINDOW_SECONDS;
}

static void add_records(struct events *events, const json_t *records, enum weight weight)
{
    size_t index;
    json_t *record;
    json_array_foreach(records, index, record)
    {
        if (in_window(events, record))
            add_record(events, record, weight);
    }
}

/* ---- stacks ---- */

static json_t *frame_text(const json_t *frame, const char *function)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    const char *file = member_string(frame, "file");
    json_int_t line = json_integer_value(json_object_get(frame, "line"));
    buf_puts(&text, function);
    if (file)
        buf_printf(&text, " at %s", text_base(file));
    if (file && line > 0)
        buf_printf(&text, ":%lld", (long long)line);
    return text_json(text.data ? text.data : "?");
}

static bool is_python(const json_t *frame)
{
    const char *file = member_string(frame, "file");
    size_t len = file ? strlen(file) : 0;
    return len > 3 && strcmp(file + len - 3, ".py") == 0;
}

/* The innermost; of a crash in C below Python, the innermost of Python, too: between them is the interpreter. */
static void put_stack(struct event *event, const json_t *frames)
{
    size_t index;
    json_t *frame;
    bool python = false, own = false, any = false;
    if (!event || !json_array_size(frames))
        return;
    json_array_foreach(frames, index, frame) any |= !cause_is_library(frame);
    event->stack = json_array();
    json_array_foreach(frames, index, frame)
    {
        own |= !any || !cause_is_library(frame);
        if (!own)
            continue;
        const char *function = member_string(frame, "function");
        size_t shown = json_array_size(event->stack);
        if (shown == 2 * (size_t)STACK_FRAMES || (shown >= STACK_FRAMES && python))
            break;
        if (function && (shown < STACK_FRAMES || is_python(frame))) /* all of a crash stands elsewhere in the report */
            json_array_append_new(event->stack, frame_text(frame, function));
        python |= shown < STACK_FRAMES && is_python(frame);
    }
}

/* ---- layers ---- */

static bool starts_in(const struct events *events, pid_t pid)
{
    return cause_chain_at(events->end, pid) >= 0;
}

static bool crashed(const struct events *events, pid_t pid)
{
    size_t index;
    json_t *crash;
    json_array_foreach(events->end->crashes, index, crash)
    {
        if (json_integer_value(json_object_get(crash, "pid")) == pid)
            return true;
    }
    return false;
}

/* How the command itself ended is the last event. A status of one that is not to blame is often an answer, as of a test. */
static void add_failed(struct events *events)
{
    const struct job_model *model = events->end->model;
    int command = (int)json_array_size(events->end->chain) - 1, others = 0;
    for (size_t i = 0; i < model->ended_count; i++) {
        const struct job_process *process = &model->ended[i];
        char room[32];
        if (process->status == JOB_STATUS_UNKNOWN || process->status == 0 ||
            process->end < events->end->seconds - WINDOW_SECONDS || crashed(events, process->pid))
            continue;
        int at = cause_chain_at(events->end, process->pid);
        if (at >= 0 && at == command)
            continue;
        bool own = at >= 0;
        if (!own && (culprit_is_answer(process) || others++ >= OTHERS_FAILED))
            continue;
        bool killed = WIFSIGNALED(process->status) && WTERMSIG(process->status) != SIGPIPE;
        enum weight weight = own ? WEIGHT_FAILURE : killed ? WEIGHT_HINT : WEIGHT_ASIDE;
        struct event *event = event_add(events, STREAM_PROCESS, process->end, weight);
        if (!event)
            continue;
        buf_printf(&event->text, "%s (pid %d) ended ", process->name, (int)process->pid);
        if (WIFSIGNALED(process->status))
            buf_printf(&event->text, "by %s", text_signal(WTERMSIG(process->status), room, sizeof room));
        else
            buf_printf(&event->text, "with exit status %d", WEXITSTATUS(process->status));
    }
}

static void add_crashes(struct events *events)
{
    size_t index;
    json_t *crash;
    json_array_foreach(events->end->crashes, index, crash)
    {
        pid_t pid = (pid_t)json_integer_value(json_object_get(crash, "pid"));
        struct event *event = event_add(events, STREAM_PROCESS,
                                        cause_before_end(events->end, pid, record_seconds(crash)), WEIGHT_FAILURE);
        char room[32];
        const char *name = member_string(crash, "name");
        const char *reason = member_string(crash, "reason");
        if (!event)
            continue;
        buf_printf(&event->text, "%s (pid %d) crashed: %s", name ? name : "?", (int)pid,
                   text_signal((int)json_integer_value(json_object_get(crash, "signal")), room, sizeof room));
        if (reason)
            buf_printf(&event->text, ", %s", reason);
        event->seq = json_object_get(crash, "seq");
        put_stack(event, json_object_get(crash, "frames"));
    }
}

/* Of processes that failed, or were there at the end. What ended well shortly before has done its work. */
static bool was_there(const struct events *events, pid_t pid)
{
    const struct job_model *model = events->end->model;
    struct job_process *alive;
    HASH_FIND_INT(model->alive, &pid, alive);
    if (alive || starts_in(events, pid))
        return true;
    /* they stand about in the order of their ends */
    for (size_t i = model->ended_count; i-- > 0 && model->ended[i].end >= events->end->seconds - WINDOW_SECONDS;)
        if (model->ended[i].pid == pid)
            return model->ended[i].status != 0 && model->ended[i].end >= events->end->seconds - AT_END_SECONDS;
    return false;
}

/* Python's own importer, of which there is no file. */
static bool is_frozen(const json_t *place)
{
    static const char frozen[] = "<frozen ";
    const char *file = member_string(place, "file");
    return file && strncmp(file, frozen, strlen(frozen)) == 0;
}

static void add_python_stack(struct events *events, const json_t *record)
{
    const json_t *thread = json_array_get(json_object_get(record, "threads"), 0);
    const json_t *frames = json_object_get(thread, "frames"), *inner = json_array_get(frames, 0);
    for (size_t i = 1; inner && is_frozen(inner); i++)
        inner = json_array_get(frames, i);
    struct event *event = inner ? event_add(events, STREAM_PYTHON, record_seconds(record), WEIGHT_PLACE) : NULL;
    if (!event)
        return;
    const char *function = member_string(inner, "function");
    const char *file = member_string(inner, "file");
    buf_printf(&event->text, "%d was in %s at %s:%lld", (int)json_integer_value(json_object_get(record, "pid")),
               function ? function : "?", file ? file : "?",
               (long long)json_integer_value(json_object_get(inner, "line")));
    event->seq = json_object_get(record, "seq");
    put_stack(event, frames);
}

/* Where scripts were; also long before the end, if that was the last that was seen of them. */
static void add_places(struct events *events)
{
    for (const struct layer_place *place = events->end->model->layers.places; place; place = place->hh.next) {
        if ((!place->line && !place->stack) || !was_there(events, place->pid))
            continue;
        if (place->line && !is_frozen(place->line))
            add_record(events, place->line, WEIGHT_PLACE);
        if (place->stack)
            add_python_stack(events, place->stack);
    }
}

static void add_scripts(struct events *events)
{
    const struct layers *layers = &events->end->model->layers;
    size_t index;
    json_t *record;
    json_array_foreach(layers->failures.records, index, record)
    {
        bool own = starts_in(events, (pid_t)json_integer_value(json_object_get(record, "pid")));
        if (in_window(events, record))
            put_stack(add_record(events, record, own ? WEIGHT_FAILURE : WEIGHT_TROUBLE),
                      json_object_get(record, "stack"));
    }
    json_array_foreach(layers->uncaught.records, index, record)
    {
        if (in_window(events, record))
            put_stack(add_record(events, record, WEIGHT_FAILURE), json_object_get(record, "traceback"));
    }
    add_records(events, layers->caught.records, WEIGHT_ASIDE);
}

static void add_logs(struct events *events)
{
    static const enum weight weights[LINE_LEVELS] = {WEIGHT_TROUBLE, WEIGHT_HINT, WEIGHT_ASIDE, WEIGHT_ASIDE};
    const struct layers *layers = &events->end->model->layers;
    size_t index;
    json_t *record;
    add_records(events, layers->errors.records, WEIGHT_TROUBLE);
    json_array_foreach(layers->logs.records, index, record)
    {
        enum line_level level = line_level_of(member_string(record, "level"));
        if (level != LINE_ERROR && in_window(events, record))
            add_record(events, record, weights[level]);
    }
}

/* Warnings of these kinds are about what a job needs; the others are about watching it. */
static bool is_trouble(const json_t *warning)
{
    static const char *const kinds[] = {"disk", "memory", "credential", "stalled", "out_of_memory", NULL};
    return text_is_one(member_string(warning, "kind"), kinds);
}

static void add_warnings(struct events *events)
{
    size_t index;
    json_t *record;
    json_array_foreach(events->end->warnings, index, record)
    {
        struct event *event = in_window(events, record) ? event_add(events, STREAM_WARNING, record_seconds(record),
                                                                    is_trouble(record) ? WEIGHT_TROUBLE : WEIGHT_ASIDE)
                                                        : NULL;
        const char *text = member_string(record, "text");
        if (!event)
            continue;
        buf_puts(&event->text, text ? text : "?");
        event->seq = json_object_get(record, "seq");
    }
}

/* ---- the node ---- */

static bool is_short_of(int64_t left, int64_t total)
{
    return total > 0 && left >= 0 && (double)left < 0.02 * (double)total;
}

/* The node's last state: what is short is more than an aside. */
static void add_node(struct events *events)
{
    const struct layers *layers = &events->end->model->layers;
    struct health_record row;
    if (!layers->health)
        return;
    record_read(layers->health, RECORD_health, &row);
    const json_t *memory = json_object_get(layers->health, "memory"),
                 *pressure = json_object_get(layers->health, "pressure");
    int64_t total = json_integer_value(json_object_get(memory, "total_bytes")),
            available = json_integer_value(json_object_get(memory, "available_bytes"));
    double waits = json_number_value(json_object_get(pressure, "memory"));
    bool low = total > 0 && (double)available < 0.1 * (double)total;
    struct event *event = add_record(events, layers->health, low || waits > 0.2 ? WEIGHT_HINT : WEIGHT_ASIDE);
    for (const struct layer_filesystem *system = layers->filesystems; event && system; system = system->hh.next) {
        bool inodes = system->inodes > 0 && is_short_of(system->free_inodes, system->inodes);
        if (!is_short_of(system->free_bytes, system->total_bytes) && !inodes)
            continue;
        buf_printf(&event->text, "; on the disk of %s ", system->path);
        text_size(&event->text, (uint64_t)(system->free_bytes > 0 ? system->free_bytes : 0));
        buf_puts(&event->text, inodes ? " and hardly any file are left" : " are left");
        event->weight = WEIGHT_TROUBLE;
    }
}

static void add_end(struct events *events)
{
    const struct job_end *end = events->end;
    if (!end->model->end)
        return;
    char room[32];
    struct event *event = event_add(events, STREAM_JOB, end->seconds, WEIGHT_TROUBLE);
    if (!event)
        return;
    event->seq = json_object_get(end->model->end, "seq");
    if (end->signal)
        buf_printf(&event->text, "the command was killed by %s", text_signal(end->signal, room, sizeof room));
    else
        buf_printf(&event->text, "the command ended with exit status %d", end->exit_code);
}

/* ---- all of them ---- */

static int by_time(const void *a, const void *b)
{
    const struct event *left = a, *right = b;
    if (left->at != right->at)
        return left->at < right->at ? -1 : 1;
    return left->order < right->order ? -1 : left->order > right->order;
}

/* The heavier first; of those of one weight, what came last. */
static int by_weight(const void *a, const void *b)
{
    const struct event *left = a, *right = b;
    if (left->weight != right->weight)
        return left->weight > right->weight ? -1 : 1;
    return by_time(b, a);
}

/* The signal in the arguments of a request, its last number: ("/a,9)", "stop", 15). 0: none is there. */
static int signal_in(const char *arguments)
{
    const char *last = NULL;
    bool quoted = false;
    for (const char *at = arguments; *at && (quoted || *at != ')'); at++) {
        if (quoted && *at == '\\' && at[1])
            at++;
        else if (*at == '"')
            quoted = !quoted;
        else if (!quoted && *at == ',')
            last = at + 1;
    }
    return last ? atoi(last) : 0;
}

/* What a tool asked for, in words; other requests by the name of the service. */
static void add_request(struct events *events, const json_t *record)
{
    struct event *event = add_record(events, record, WEIGHT_HINT);
    const char *request = member_string(record, "request");
    const char *who = member_string(record, "who");
    const char *name = request ? request + strspn(request, ": ") : "", *signal = strstr(name, "_send_signal(");
    char room[32];
    int signo = signal ? signal_in(signal) : 0;
    size_t len = strcspn(name, "(");
    if (!event || !len || !who || (request && strspn(request, ": ") == 0))
        return; /* a conditional one: as it is */
    buf_clear(&event->text);
    buf_printf(&event->text, "%s ", who);
    if (signo > 0)
        buf_printf(&event->text, "sent %s to %s", text_signal(signo, room, sizeof room),
                   strncmp(name, "job_", 4) == 0 ? "the job" : "processes of the job");
    else
        buf_printf(&event->text, "asked for %.*s", (int)len, name);
}

static void collect(struct events *events)
{
    const struct job_model *model = events->end->model;
    add_node(events);
    add_warnings(events);
    add_places(events);
    add_scripts(events);
    add_logs(events);
    if (model->request && in_window(events, model->request))
        add_request(events, model->request);
    if (model->stall)
        add_record(events, model->stall, WEIGHT_FAILURE);
    struct event *waited =
        events->end->waited && !model->stall ? event_add(events, STREAM_MPI, events->end->seconds, WEIGHT_HINT) : NULL;
    if (waited)
        buf_puts(&waited->text, events->end->waited);
    add_records(events, model->firings, WEIGHT_HINT);
    add_records(events, model->gaps.records, WEIGHT_HINT);
    add_crashes(events);
    add_failed(events);
    add_end(events);
    if (events->count)
        qsort(events->list, events->count, sizeof *events->list, by_weight);
}

static const char *const weights[] = {
    [WEIGHT_ASIDE] = "aside",     [WEIGHT_PLACE] = "place",     [WEIGHT_HINT] = "hint",
    [WEIGHT_TROUBLE] = "trouble", [WEIGHT_FAILURE] = "failure",
};

static json_t *event_json(const struct event *event, double end)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    const char *said = event->text.data ? event->text.data : "?";
    buf_append(&text, said, text_fit(said, strlen(said), TEXT_COLUMNS));
    for (char *newline = text.data; newline && (newline = strchr(newline, '\n')) != NULL;)
        *newline = ' '; /* an event is a line; names may have any bytes */
    json_t *json =
        json_pack("{s:f, s:f, s:s, s:s, s:o}", "seconds", event->seconds, "before_end_seconds",
                  end > event->seconds ? end - event->seconds : 0, "stream", record_stream_name(event->stream),
                  "weight", weights[event->weight], "text", text_json(text.data ? text.data : "?"));
    if (json && event->stack)
        json_object_set(json, "stack", event->stack);
    if (json && event->seq)
        json_object_set(json, "seq", (json_t *)event->seq);
    return json;
}

json_t *last_reason_json(const struct job_end *end)
{
    struct cause cause;
    json_t *json = NULL;
    cause_tell(end, &cause);
    if (cause.note.kind != NOTE_NONE)
        json = note_json(&cause.note);
    if (json) {
        json_object_set_new(json, "sure", json_boolean(cause.sure));
        json_object_set(json, "evidence", cause.evidence);
    }
    cause_done(&cause);
    return json ? json : json_null();
}

/* Whether one of two texts has the other. What is short stands in many. */
static bool is_within(const char *one, const char *other)
{
    enum { LEAST = 8 };
    one += strspn(one, " \t");
    other += strspn(other, " \t");
    return strcmp(one, other) == 0 ||
           (strlen(one) >= LEAST && strlen(other) >= LEAST && (strstr(one, other) || strstr(other, one)));
}

/* Of a line of a log from which the reason follows. */
static bool is_evidence(const struct layer_list *list, const json_t *evidence, const char *line)
{
    size_t index, at;
    json_t *record, *seq;
    json_array_foreach(list->records, index, record)
    {
        const char *text = member_string(record, "text");
        json_array_foreach(evidence, at, seq)
        {
            if (text && json_equal(seq, json_object_get(record, "seq")) && is_within(line, text))
                return true;
        }
    }
    return false;
}

/* What standard error ended with, unless the reason is among that: then this says no more. */
static json_t *said_last_json(const struct job_end *end, const json_t *reason)
{
    const struct layers *layers = &end->model->layers;
    const json_t *lines = json_object_get(layers->last_lines, "lines"), *evidence = json_object_get(reason, "evidence");
    const char *text = member_string(reason, "text");
    size_t index;
    json_t *each;
    json_array_foreach(evidence, index, each)
    {
        if (json_array_size(lines) > 1 && json_equal(each, json_object_get(layers->last_lines, "seq")))
            return json_deep_copy(lines); /* the last of them is the reason, and may have begun with the others */
    }
    json_array_foreach(lines, index, each)
    {
        const char *line = json_string_value(each);
        if (line && ((text && is_within(text, line)) || is_evidence(&layers->logs, evidence, line) ||
                     is_evidence(&layers->errors, evidence, line)))
            return json_array();
    }
    return lines ? json_deep_copy(lines) : json_array();
}

/* A program that gives up says why before it aborts: without that its crash is no reason. */
static bool is_wordless_abort(const json_t *reason)
{
    const char *signal = member_string(json_object_get(reason, "fields"), "signal");
    return note_json_kind(reason) == NOTE_cause_crash && signal && strcmp(signal, "SIGABRT") == 0;
}

/* A program that ended with a status says why on standard error, or its script does: that it did so is no reason either. Of what was
 * not found, or may not be executed, that is. */
static bool is_wordless_end(const struct job_end *end, const json_t *reason)
{
    const char *said = member_string(json_object_get(reason, "fields"), "said");
    const json_t *code = json_object_get(json_array_get(end->chain, 0), "exit_code");
    json_int_t status = json_integer_value(code);
    enum note_kind kind = note_json_kind(reason);
    return said && !*said && json_is_integer(code) && status != SHELL_NOT_EXECUTABLE && status != SHELL_NOT_FOUND &&
           (kind == NOTE_cause_process || kind == NOTE_cause_command || kind == NOTE_cause_rank);
}

/* Of what a job's command writes; "": nothing is known of it. */
static const char *log_state(const struct job_end *end, const char *name)
{
    const struct layer_last *log;
    HASH_FIND_STR(end->model->layers.log_files, name, log);
    const char *state = log ? member_string(log->record, "state") : NULL;
    return state ? state : "";
}

/* Whether scripts have told what they do, and their exceptions (scry run --script calls). */
static bool last_was_told_inside(const struct layers *layers)
{
    bool inside = layers->failures.total || layers->uncaught.total || layers->caught.total;
    for (const struct layer_place *place = layers->places; place && !inside; place = place->hh.next) {
        const char *how = member_string(place->line, "how");
        inside = how && strcmp(how, "outside") != 0;
    }
    return inside;
}

/* Of a script whose shell failed by itself, how to know at which command; NULL: it is no such, or that is known. Of what stands behind -c
 * nothing more can be had. */
static const char *more_of_script(const struct job_end *end)
{
    const json_t *first = json_array_get(end->chain, 0), *argv = json_object_get(first, "argv");
    const char *name = member_string(first, "name");
    const char *shell = json_string_value(json_array_get(argv, 0)), *word;
    size_t at = 1;
    if (!shell || !starter_is_shell(name, argv) || !json_is_integer(json_object_get(first, "exit_code")) ||
        last_was_told_inside(&end->model->layers))
        return NULL;
    while ((word = json_string_value(json_array_get(argv, at))) != NULL && *word == '-' && !strchr(word, 'c'))
        at++;
    if (!word || *word == '-')
        return NULL;
    return strcmp(text_base(shell), "bash") == 0
               ? "scry run --script calls records which command of a script fails"
               : "scry run --script calls records which command of a script fails, if bash executes it";
}

/* Nothing says why. */
static bool is_unknown(const json_t *reason)
{
    return !json_is_object(reason) || note_json_kind(reason) == NOTE_cause_unknown;
}

/* Without a reason, or with one that only says who ended: what would have shown it, if that is known. */
static json_t *unknown_json(const struct job_end *end, const json_t *reason)
{
    static const char python[] = "python";
    const char *first = member_string(json_array_get(end->chain, 0), "name");
    const char *more = is_unknown(reason) ? more_of_script(end) : NULL;
    bool none = is_unknown(reason) || is_wordless_end(end, reason);
    bool spoke = json_array_size(json_object_get(end->model->layers.last_lines, "lines"));
    bool unread = (none || is_wordless_abort(reason)) && !spoke && strcmp(log_state(end, "stderr"), "unwatched") == 0;
    bool silent = is_unknown(reason) && (end->exit_code || end->signal) && !spoke;
    bool is_python =
        none && first && strncmp(first, python, sizeof python - 1) == 0 && !last_was_told_inside(&end->model->layers);
    if (!unread && !more && !silent)
        return json_null();
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    /* Many programs say on standard output why they end; an abort's words are on standard error. */
    if (silent && !unread)
        buf_puts(&text, "nothing that was recorded says why");
    else if (unread && strcmp(log_state(end, "stdout"), "watched") != 0 && none)
        buf_puts(&text,
                 "what it wrote to standard output and standard error was not read, because they are not files: run it "
                 "with scry run --tee, or with >out.txt 2>err.txt");
    else if (unread)
        buf_puts(
            &text,
            "what it wrote to standard error was not read, because it is not a file: run it with scry run --tee, or "
            "with 2>err.txt");
    if (more)
        buf_printf(&text, "%s%s", text.len ? "; " : "", more);
    else if (is_python)
        buf_puts(&text, unread ? ", or with scry run --script calls, which records exceptions of Python"
                               : "; scry run --script calls records exceptions of Python, also those that are caught");
    return text_json(text.data ? text.data : "");
}

json_t *last_json(const struct job_end *end)
{
    _cleanup_(events_done) struct events events = {.end = end};
    json_t *list = json_array();
    collect(&events);
    if (events.count > JSON_EVENTS) { /* the light ones go */
        for (size_t i = JSON_EVENTS; i < events.count; i++) {
            buf_done(&events.list[i].text);
            json_decref(events.list[i].stack);
        }
        events.count = JSON_EVENTS;
    }
    if (events.count)
        qsort(events.list, events.count, sizeof *events.list, by_time);
    for (size_t i = 0; i < events.count; i++)
        json_array_append_new(list, event_json(&events.list[i], end->seconds));
    json_t *reason = last_reason_json(end), *said = said_last_json(end, reason);
    json_t *unknown = unknown_json(end, reason);
    return json_pack("{s:o, s:o, s:o, s:o}", "reason", reason, "unknown", unknown, "said_last", said, "events", list);
}

const struct field last_reason_fields[] = {
    {"", FIELD_PART, .of = notes_fields},
    {"sure", FIELD_BOOL, .about = "false: it is probable"},
    {"evidence", FIELD_LIST, .of = fields_integers, .about = "seq of the records from which it follows"},
    {0}};

static const struct field event_fields[] = {
    {"seconds", FIELD_NUMBER, .about = "since the start of the job"},
    {"before_end_seconds", FIELD_NUMBER},
    {"stream", FIELD_TEXT, .about = "the layer, as in records"},
    {"weight", FIELD_CHOICE, .choices = "aside|place|hint|trouble|failure", .about = "how much it has to do with it"},
    {"text", FIELD_TEXT},
    {"stack", FIELD_LIST, .flags = FIELD_OPTIONAL, .of = fields_texts, .about = "the innermost first"},
    {"seq", FIELD_COUNT, .flags = FIELD_OPTIONAL, .about = "of the record"},
    {0}};

const struct field last_fields[] = {
    {"reason", FIELD_OBJECT, .flags = FIELD_OR_NULL, .of = last_reason_fields,
     .about = "the most probable one, a [note](notes.md); cause_unknown: nothing says why; null: nor is it known what "
              "ended"},
    {"unknown", FIELD_TEXT, .flags = FIELD_OR_NULL,
     .about = "of a job without a reason, or whose reason is only that a program ended, what would have shown it; "
              "null: nothing that is known"},
    {"said_last", FIELD_LIST, .of = fields_texts,
     .about = "the last lines of standard error, or else of standard output, where the reason does not have them"},
    {"events", FIELD_LIST, .of = event_fields, .about = "in the order of their times"},
    {0}};

/* ---- for people ---- */

static int weight_of(const json_t *event)
{
    const char *name = member_string(event, "weight");
    for (int i = 0; name && i <= WEIGHT_FAILURE; i++)
        if (strcmp(name, weights[i]) == 0)
            return i;
    return WEIGHT_ASIDE;
}

static bool is_of(const json_t *event, enum record_stream stream)
{
    const char *name = member_string(event, "stream");
    return name && strcmp(name, record_stream_name(stream)) == 0;
}

/* How the command ended stands above. The summary has the warnings elsewhere; it shows nothing that is only aside. */
static bool is_shown(const json_t *event, bool whole)
{
    return !is_of(event, STREAM_JOB) && (whole || (weight_of(event) > WEIGHT_ASIDE && !is_of(event, STREAM_WARNING)));
}

/* Whether the reason, which stands above, says it already: the line of a log, the command of a script, an exception, or the end of a process, by its
 * name and number. */
static bool is_in_reason(const json_t *event, const char *reason, bool whole)
{
    enum {
        ENOUGH = 150,
        LEAST = 8
    }; /* of a long line, which the reason may have cut; and of one that says something */
    const char *text = member_string(event, "text");
    const char *end = text && is_of(event, STREAM_PROCESS) ? strchr(text, ')') : NULL; /* behind its number */
    bool says = is_of(event, STREAM_LOG) || is_of(event, STREAM_SCRIPT) || is_of(event, STREAM_PYTHON);
    const char *rest = text && says ? strstr(text, ": ") : NULL;
    const char *from = end ? text : rest ? rest + strlen(": ") : NULL;
    size_t size = end ? (size_t)(end + 1 - text) : from ? strnlen(from, ENOUGH) : 0;
    bool is_old = json_number_value(json_object_get(event, "before_end_seconds")) > SAID_SECONDS;
    return reason && size >= LEAST && !is_old && memmem(reason, strlen(reason), from, size) &&
           !(whole && json_object_get(event, "stack"));
}

/* Whether it is a line of a log that stands above as said last, and has no more than that. */
static bool is_said_last(const json_t *event, const json_t *said)
{
    const char *text = member_string(event, "text"), *rest = text ? strstr(text, ": ") : NULL;
    bool is_old = json_number_value(json_object_get(event, "before_end_seconds")) > SAID_SECONDS;
    size_t index;
    json_t *line;
    if (!rest || is_old || !is_of(event, STREAM_LOG))
        return false;
    rest += strlen(": ");
    json_array_foreach(said, index, line)
    {
        const char *one = json_string_value(line);
        if (one && strlen(rest) <= strlen(one) && is_within(rest, one))
            return true;
    }
    return false;
}

/* Each is told once. A new reference. */
static json_t *shown_events(const json_t *last, bool whole)
{
    const json_t *said = json_object_get(last, "said_last");
    const char *reason = member_string(json_object_get(last, "reason"), "text");
    json_t *list = json_array(), *event;
    size_t index;
    json_array_foreach(json_object_get(last, "events"), index, event)
    {
        if (is_shown(event, whole) && !is_in_reason(event, reason, whole) && !is_said_last(event, said))
            json_array_append(list, event);
    }
    return list;
}

/* The least weight that is shown; of the events of it, the first *ret_left_out find no room. */
static int least_weight(const json_t *list, bool whole, size_t *ret_left_out)
{
    size_t counts[WEIGHT_FAILURE + 1] = {0}, index, room = whole ? REPORT_EVENTS : SUMMARY_EVENTS;
    json_t *event;
    json_array_foreach(list, index, event) counts[weight_of(event)]++;
    int weight = WEIGHT_FAILURE;
    for (; weight > WEIGHT_ASIDE && counts[weight] < room; weight--)
        room -= counts[weight];
    *ret_left_out = counts[weight] > room ? counts[weight] - room : 0;
    return weight;
}

static void put_event(struct buf *out, const json_t *event, const char *label, bool whole)
{
    double before = json_number_value(json_object_get(event, "before_end_seconds"));
    const char *stream = member_string(event, "stream");
    const char *text = member_string(event, "text");
    size_t index;
    json_t *frame;
    text_label(out, label);
    char when[32] = "end";
    if (before >= 0.005)
        snprintf(when, sizeof when, "-%.2f s", before);
    buf_printf(out, "%10s  ", when);
    text_column(out, stream ? stream : "?", 8);
    buf_puts(out, "  ");
    text_show(out, text ? text : "?");
    buf_putc(out, '\n');
    json_array_foreach(json_object_get(event, "stack"), index, frame)
    {
        if (!whole)
            break;
        text_label(out, "");
        buf_printf(out, "%24s", "");
        text_show(out, json_string_value(frame));
        buf_putc(out, '\n');
    }
}

/* Where scripts were says nothing by itself. */
static bool says_something(const json_t *list)
{
    size_t index;
    json_t *event;
    json_array_foreach(list, index, event)
    {
        if (weight_of(event) > WEIGHT_PLACE)
            return true;
    }
    return false;
}

void last_unknown_text(struct buf *out, const json_t *last)
{
    const char *unknown = member_string(last, "unknown");
    if (!unknown)
        return;
    text_label(out, "");
    text_show(out, unknown);
    buf_putc(out, '\n');
}

void last_said_text(struct buf *out, const json_t *last)
{
    const char *reason = member_string(json_object_get(last, "reason"), "text");
    size_t index;
    json_t *line;
    bool all = reason != NULL; /* of them are in the reason */
    json_array_foreach(json_object_get(last, "said_last"), index, line)
    {
        const char *text = json_string_value(line);
        text += text ? strspn(text, " \t") : 0;
        all = all && text && strstr(reason, text);
    }
    if (all)
        return;
    json_array_foreach(json_object_get(last, "said_last"), index, line)
    {
        text_label(out, index ? "" : "said last");
        text_show(out, json_string_value(line));
        buf_putc(out, '\n');
    }
}

void last_text(struct buf *out, const json_t *last, bool whole, const char *colour)
{
    const json_t *reason = json_object_get(last, "reason");
    json_t *list = shown_events(last, whole);
    const char *text = member_string(reason, "text");
    const char *unknown = member_string(last, "unknown");
    size_t index, shown = 0, left_out;
    json_t *event;
    int least = least_weight(list, whole, &left_out);
    if (text || unknown) {
        text_label_in(out, "reason", colour);
        buf_puts(out, text ? "" : "not known: ");
        text_show(out, text ? text : unknown);
        buf_putc(out, '\n');
    }
    if (text)
        last_unknown_text(out, last);
    bool spoke =
        json_array_size(json_object_get(last, "said_last")) || *member_text(json_object_get(reason, "fields"), "words");
    if (is_unknown(reason) && !whole && !says_something(list) && !spoke)
        json_array_clear(list);
    last_said_text(out, last);
    json_array_foreach(list, index, event)
    {
        int weight = weight_of(event);
        if (weight < least || (weight == least && left_out && left_out--))
            continue;
        put_event(out, event, shown++ ? "" : "last", whole);
    }
    json_decref(list);
}
