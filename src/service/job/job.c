/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/cleanup.h"
#include "base/data/notes.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "base/system/log.h"
#include "base/system/loop.h"
#include "base/system/proc_file.h"
#include "jobdir/record/dir.h"
#include "jobdir/record/parts.h"
#include "lang/value.h"
#include "lang/results.h"
#include "lang/token.h"
#include "monitor/engine/csr.h"
#include "monitor/engine/event.h"
#include "monitor/engine/execute.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/object.h"
#include "monitor/engine/process.h"
#include "monitor/engine/tool.h"
#include "monitor/mpi/mpi.h"
#include "monitor/recorder/agents.h"
#include "monitor/tree/tree.h"
#include "service/ct/ct.h"
#include "service/job/follow.h"
#include "service/omis/service.h"
#include "shm/waits.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utlist.h>

/* All nodes of a job at once: one after the other, logins of many nodes would take minutes. */

struct reached {
    struct reaching_all *all;
    struct attaching *attaching; /* NULL: answered */
    const char *name, *why;
    char token[TOKEN_TEXT_SIZE];
};

struct reaching_all {
    struct later *later;
    struct arena *arena;
    struct loop_source *timer;
    struct reached *list;
    size_t count, waiting;
    char late[64]; /* for those that have not answered in time */
};

static void reaching_all_cancel(void *ctx)
{
    struct reaching_all *all = ctx;
    loop_remove(all->timer);
    for (size_t i = 0; i < all->count; i++)
        if (all->list[i].attaching)
            tree_attach_forget(all->list[i].attaching);
}

static void reaching_all_answer(struct reaching_all *all, struct scry_call *call)
{
    struct buf text = BUF_INIT;
    put_list(&text);
    for (size_t i = 0; i < all->count; i++) {
        const struct reached *reached = &all->list[i];
        PUT(&text, reached->name, value_token(span_str(*reached->token ? reached->token : TOKEN_UNDEFINED)),
            reached->attaching ? all->late : reached->why);
    }
    put_end(&text);
    call_text(call, NULL, &text);
    buf_done(&text);
    reaching_all_cancel(all);
}

/* All have answered, or the time is over. */
static void reaching_all_end(void *ctx)
{
    struct reaching_all *all = ctx;
    struct later *later = all->later;
    reaching_all_answer(all, call_later_begin(later));
    call_later_end(later, true);
}

static void one_reached(void *ctx, const char *token, Omis_status status, const char *why)
{
    (void)status;
    struct reached *reached = ctx;
    struct reaching_all *all = reached->all;
    reached->attaching = NULL;
    snprintf(reached->token, sizeof reached->token, "%s", token ? token : "");
    reached->why = token ? "" : arena_dup(all->arena, why, strlen(why));
    if (!reached->why)
        reached->why = "out of memory";
    if (--all->waiting == 0)
        reaching_all_end(all);
}

static void reach_one(struct scry_call *call, struct reached *reached)
{
    struct node *node = call->monitor->node;
    if (node_is_local(node, reached->name)) {
        call->tool->node_attached = true;
        one_reached(reached, node->object.token, OMIS_OK, NULL);
        return;
    }
    struct attaching *attaching = tree_attach(call->tool, reached->name, one_reached, reached);
    if (attaching) /* else it has answered, and may be gone */
        reached->attaching = attaching;
}

static void job_attach_nodes(struct scry_call *call)
{
    const struct value *names = &call->args[0];
    if (!call_check_range(call, 1, 1, NODES_TIMEOUT_MOST_MS))
        return;
    struct reaching_all *all = arena_zalloc(call->arena, 1, sizeof *all);
    struct reached *list = arena_zalloc(call->arena, names->list.count + 1, sizeof *list);
    uint64_t timeout_ns = call_unsigned(call, 1) * 1000000;
    bool good = all && list;
    for (size_t i = 0; good && i < names->list.count; i++) {
        struct span name = names->list.items[i].text;
        list[i].all = all;
        list[i].name = arena_dup(call->arena, name.ptr, name.len);
        good = list[i].name && strlen(list[i].name) == name.len;
    }
    if (!good) {
        call_fail(call, NULL, OMIS_PARAMETER_ERROR, "a name holds a NUL, or is too long");
        return;
    }
    *all = (struct reaching_all){
        .arena = call->arena, .list = list, .count = names->list.count, .waiting = names->list.count + 1};
    snprintf(all->late, sizeof all->late, "it has not answered within %.3g s", (double)timeout_ns / 1e9);
    all->timer = loop_add_timer(call->monitor->loop, timeout_ns, 0, reaching_all_end, all);
    all->later = all->timer ? call_later(call, reaching_all_cancel, all) : NULL;
    if (!all->later) {
        loop_remove(all->timer);
        call_fail(call, NULL, OMIS_UNSUPPORTED_SERVICE,
                  "unsupported: job_attach_nodes takes a while: not in braces, nor for an event");
        return;
    }
    for (size_t i = 0; i < all->count; i++)
        reach_one(call, &list[i]);
    if (--all->waiting == 0)
        reaching_all_end(all);
}

const struct scry_service job_node_services[] = {
    {"job_attach_nodes", SCRY_MANIPULATION, "string* node_names, integer<ms> patience -> " NODES_REACHED "* nodes",
     SCRY_OPTIONAL | SCRY_LOCAL, job_attach_nodes,
     "Attach to many nodes by their names, as node_attach2, all at the same time. problem: it cannot be reached, or "
     "has "
     "not answered within patience; then node is u_0."},
    SERVICE_END,
};

struct monitor;

enum { ASKED_BURST = 64, ASKED_PER_SECOND = 4 };

/* Of one job; zeroed at the start. */
struct asked {
    uint64_t turn_ns;  /* when the burst is whole again; 0: it is */
    uint64_t left_out; /* not told of yet */
};

#define ASKED_EVENT "job_was_requested"
#define ASKED_RESULT \
    "{ string who; string serial; integer pid; integer uid; string request; string status; string why; " \
    "integer left_out; string job }"

/*
 * What scry run hears of requests that changed its job (monitor/engine/change.c): the event job_was_requested. Of a job at
 * most ASKED_BURST at once and then ASKED_PER_SECOND; what is more is counted,
 * and told before the next one, and with samples: an event with left_out, and nothing else.
 */

enum { WHO, SERIAL, PID, UID, TEXT, STATUS, WHY, LEFT_OUT, JOB, OUTPUTS };
enum { TEXT_SHOWN = 4096 /* bytes of a request, in the record */, REFUSED_SHOWN = 256 };
static const uint64_t TURN_NS = NS_PER_SECOND / ASKED_PER_SECOND;

static bool job_match(const struct csr *csr, const struct event *event)
{
    struct span name = csr->event_args[0].text, dir = event->outputs[JOB].text;
    return span_eq(name, dir) || span_eq(name, job_object_id(dir));
}

static const struct event_ops asked_ops = {.match = job_match};

/* Not in the middle of a character. */
static struct span text_cut(struct span text, size_t most)
{
    if (text.len <= most)
        return text;
    text.len = most;
    while (text.len && ((unsigned char)text.ptr[text.len] & 0xc0) == 0x80)
        text.len--;
    return text;
}

static bool has_turn(struct asked *asked)
{
    uint64_t now = clock_now_ns();
    if (asked->turn_ns < now)
        asked->turn_ns = now;
    if (asked->turn_ns + TURN_NS > now + ASKED_BURST * TURN_NS)
        return false;
    asked->turn_ns += TURN_NS;
    return true;
}

/* Of a tool on this node that is not confined: its program. */
static void name_tool(const struct change *change, char *ret_name, size_t size)
{
    ret_name[0] = 0;
    if (change->pid > 0)
        proc_comm(change->pid, change->pid, ret_name, size);
    if (!ret_name[0])
        snprintf(ret_name, size, "%s", change->pid > 0 ? "a tool that has ended" : "a tool on another node");
}

static int raise_asked(struct monitor *monitor, struct value *outputs)
{
    struct event event = {.service = registry_find(monitor->registry, span_str(ASKED_EVENT)),
                          .time_ns = clock_now_ns(),
                          .outputs = outputs,
                          .output_count = OUTPUTS};
    return event.service->enabled ? event_queue(monitor, &event) : 0;
}

/* Tells how many were left out, if any were. */
static void asked_flush(struct asked *asked, struct monitor *monitor, const char *dir)
{
    struct value none = value_string(span_of("", 0));
    struct value outputs[OUTPUTS] = {[WHO] = none,
                                     [SERIAL] = none,
                                     [PID] = value_int(0),
                                     [UID] = value_int(geteuid()),
                                     [TEXT] = none,
                                     [STATUS] = none,
                                     [WHY] = none,
                                     [LEFT_OUT] = value_int((int64_t)asked->left_out),
                                     [JOB] = value_string(span_str(dir))};
    if (asked->left_out && raise_asked(monitor, outputs) == 0)
        asked->left_out = 0;
}

static void asked_tell(struct asked *asked, struct monitor *monitor, const struct change *change, const char *dir)
{
    const struct confinement *of = &change->tool->confined;
    bool refused = change->status == OMIS_NO_PERMISSION;
    char name[64];
    if (!has_turn(asked)) {
        asked->left_out++;
        return;
    }
    asked_flush(asked, monitor, dir);
    if (!of->who)
        name_tool(change, name, sizeof name);
    struct value outputs[OUTPUTS] = {[WHO] = value_string(span_str(of->who ? of->who : name)),
                                     [SERIAL] = value_string(span_str(of->who ? of->serial : "")),
                                     [PID] = value_int(of->who ? 0 : change->pid),
                                     [UID] = value_int(geteuid()), /* others cannot connect */
                                     [TEXT] =
                                         value_string(text_cut(change->text, refused ? REFUSED_SHOWN : TEXT_SHOWN)),
                                     [STATUS] = value_string(span_str(omis_status_name(change->status & ~OMIS_FATAL))),
                                     [WHY] = value_string(change->why),
                                     [LEFT_OUT] = value_int(0),
                                     [JOB] = value_string(span_str(dir))};
    if (raise_asked(monitor, outputs) < 0)
        asked->left_out++; /* out of memory */
}

/*
 * The built-in extension `job`: what scry run needs of the monitor; one request a sample returns everything. Any tool
 * changes settings of a job by job_set: those of tracing go to the job's agents, the others as an event to scry run.
 */

struct job {
    struct job_object named;
    struct monitor *monitor;
    struct job *next;        /* of the monitor's */
    const struct tool *tool; /* that follows it */
    struct asked asked;      /* requests that change it */
    struct job_follow *follow;
    struct loop_source *source;
    struct throttle *exits;
    char *sample; /* the last setting of scry run; NULL: it is as at the start */
};

static void job_free(void *data)
{
    struct job *job = data;
    if (!job)
        return;
    log_debug("job state=ended dir=%s", LOG_TEXT(job->named.dir));
    LL_DELETE(job->monitor->jobs, job);
    loop_remove(job->source);
    throttle_free(job->exits);
    job_follow_free(job->follow);
    if (job->monitor->agents)
        agents_job_end(job->monitor->agents, job->named.dir);
    free(job->named.dir);
    free(job->sample);
    free(job);
}

static void on_buffers(void *ctx, int fd, uint32_t events)
{
    struct job *job = ctx;
    job_follow_drain(job->follow);
}

static struct object_class *job_class(struct monitor *monitor)
{
    struct object_class *class = object_class_get(monitor, JOB_CLASS);
    if (class) {
        class->destroy = job_free;
        class->doc = "a followed job";
    }
    return class;
}

/* Offers a process to all jobs: only its own one knows it. */
static void process_seen(struct monitor *monitor, pid_t pid)
{
    for (struct job *job = monitor->jobs; job; job = job->next)
        job_follow_seen(job->follow, pid);
}

static void process_said(struct monitor *monitor, const struct agent_command *said)
{
    struct job_command *command = job_command_new(said->directory, said->args, said->whole, said->time_ns);
    if (command)
        command->said = true;
    for (struct job *job = monitor->jobs; job && command; job = job->next)
        job_follow_command(job->follow, said->pid, command);
    job_command_drop(command);
}

/* For tools that are confined to a job. */
static bool job_has(struct monitor *monitor, const char *dir, pid_t pid)
{
    for (struct job *job = monitor->jobs; job; job = job->next)
        if (strcmp(job->named.dir, dir) == 0 && job_follow_has(job->follow, pid))
            return true;
    return false;
}

static struct span job_of(struct monitor *monitor, const struct tool *tool, pid_t pid, struct span name)
{
    const struct scry_object *named = pid ? NULL : job_object_find(monitor, name);
    for (struct job *job = monitor->jobs; job; job = job->next)
        if (job->tool != tool && (pid ? job_follow_knows(job->follow, pid) : named && named->data == job))
            return span_str(job->named.dir);
    return span_of("", 0);
}

static void job_changed(struct monitor *monitor, const struct change *change)
{
    for (struct job *job = monitor->jobs; job; job = job->next)
        if (span_is(change->job, job->named.dir))
            asked_tell(&job->asked, monitor, change, job->named.dir);
}

static void on_exits(void *ctx)
{
    job_follow_hear(((struct job *)ctx)->follow);
}

static int job_new(struct scry_call *call, const char *dir, pid_t pid, struct job **ret_job, struct err *err)
{
    struct monitor *monitor = call->monitor;
    struct job *job = calloc(1, sizeof *job);
    char *copy = strdup(dir);
    int code = job && copy ? job_follow_new(&job->follow, pid, dir, err) : err_set(err, -ENOMEM, "out of memory");
    if (code == 0 && monitor->agents && (code = agents_job_set(monitor->agents, dir, NULL, NULL, err)) < 0)
        job_follow_free(job->follow);
    if (code < 0) {
        free(copy);
        free(job);
        return code;
    }
    monitor->on_hello = process_seen;
    monitor->on_command = process_said;
    monitor->job_has = job_has;
    monitor->job_of = job_of;
    monitor->on_change = job_changed;
    job->monitor = monitor;
    job->tool = call->tool;
    LL_PREPEND(monitor->jobs, job);
    job->named.dir = copy;
    int fd = job_follow_fd(job->follow);
    if (fd >= 0)
        job->source = loop_add_fd(call->monitor->loop, fd, EPOLLIN, on_buffers, job);
    fd = job_follow_exits_fd(job->follow);
    if (fd >= 0)
        job->exits = throttle_new(call->monitor->loop, fd, EXITS_REST_NS, on_exits, job);
    *ret_job = job;
    return 0;
}

static void job_create(struct scry_call *call)
{
    struct err err = {0};
    struct job *job = NULL;
    const char *dir = call_check_range(call, 1, 2, INT32_MAX) ? call_string(call, 0) : NULL;
    if (!dir)
        return;
    struct object_class *class = job_class(call->monitor);
    struct scry_object *object = class ? calloc(1, sizeof *object) : NULL;
    if (!object) {
        call_fail(call, NULL, OMIS_NO_MEMORY, "out of memory");
        return;
    }
    int code = job_new(call, dir, (pid_t)call_integer(call, 1), &job, &err);
    if (code < 0) {
        free(object);
        call_fail_errno(call, NULL, code, &err);
        return;
    }
    object->data = job;
    object_init(object, call->monitor, class, call->tool);
    log_debug("job state=created token=%s tool=%u pid=%d dir=%s", object->token, call->tool->id,
              (int)call_integer(call, 1), LOG_TEXT(dir));
    ct_job_created(call->monitor, call->tool, dir);
    struct buf text = BUF_INIT;
    buf_puts(&text, object->token);
    call_text(call, object, &text);
    buf_done(&text);
}

static bool is_owner(struct scry_call *call, struct scry_object *object)
{
    if (object->owner == call->tool)
        return true;
    call_fail(call, object, OMIS_NO_PERMISSION, "%s belongs to another tool", object->token);
    return false;
}

static void job_get_info(struct scry_call *call)
{
    for (size_t i = 0; i < call->object_count; i++) {
        struct scry_object *object = call->objects[i];
        struct job *job = object->data;
        if (!is_owner(call, object))
            continue;
        struct buf text = BUF_INIT;
        job_follow_sample(job->follow);
        if (call->monitor->agents) /* afterwards: everything that ended processes sent has arrived */
            agent_commands_read(call->monitor->agents);
        job_follow_print(job->follow, call_unsigned(call, 1), &text);
        asked_flush(&job->asked, call->monitor, job->named.dir);
        call_text(call, object, &text);
        buf_done(&text);
    }
}

static void job_destroy(struct scry_call *call)
{
    for (size_t i = 0; i < call->object_count; i++) {
        if (!is_owner(call, call->objects[i]))
            continue;
        call_ok(call, call->objects[i]);
        object_end(call->objects[i]);
    }
}

/* ---- settings ---- */

static struct job *job_find(struct scry_call *call)
{
    struct span name = call->args[0].text;
    struct scry_object *found = job_object_find(call->monitor, name);
    struct buf known = BUF_INIT;
    if (found)
        return found->data;
    for (struct scry_object *object = call->monitor->objects; object; object = object->hh.next) {
        if (!object_is(object, JOB_CLASS))
            continue;
        struct job *job = object->data;
        struct span id = job_object_id(span_str(job->named.dir));
        buf_printf(&known, "%s%.*s", known.len ? ", " : "", SPAN_ARG(id));
    }
    if (known.data)
        call_fail(call, NULL, OMIS_PARAMETER_ERROR, "no job %.*s runs here; running: %s", SPAN_ARG(name), known.data);
    else
        call_fail(call, NULL, OMIS_PARAMETER_ERROR, "no job %.*s runs here; none does", SPAN_ARG(name));
    buf_done(&known);
    return NULL;
}

enum { CHANGE_KEY, CHANGE_VALUE, CHANGE_JOB, CHANGE_OUTPUTS };

static bool match_setting(const struct csr *csr, const struct event *event)
{
    struct span name = csr->event_args[0].text, dir = event->outputs[CHANGE_JOB].text;
    return span_eq(name, dir) || span_eq(name, job_object_id(dir));
}

static const struct event_ops setting_ops = {.match = match_setting};

/* Reports the change to tools that asked for it, such as scry run. false: nobody did. */
static bool tell_setting(struct scry_call *call, const struct job *job, size_t key)
{
    struct value outputs[CHANGE_OUTPUTS] = {call->args[key], call->args[key + 1],
                                            value_string(span_str(job->named.dir))};
    struct event event = {.service = registry_find(call->monitor->registry, span_str("job_setting_changed")),
                          .time_ns = clock_now_ns(),
                          .outputs = outputs,
                          .output_count = CHANGE_OUTPUTS};
    bool heard = false;
    for (const struct csr *csr = event.service->enabled; csr && !heard; csr = csr->next_enabled)
        heard = match_setting(csr, &event);
    if (heard && event_queue(call->monitor, &event) < 0)
        log_error("a changed setting of %s is not told: out of memory", job->named.dir);
    return heard;
}

static int keep_sample(struct job *job, const char *value)
{
    char *copy = strdup(value);
    if (!copy)
        return -ENOMEM;
    free(job->sample);
    job->sample = copy;
    return 0;
}

/* Key and value are the arguments from `at` on. Returns false after answering, for the object, why it is not done. */
static bool set_job(struct scry_call *call, struct job *job, struct scry_object *object, size_t at)
{
    const char *key = call_string(call, at), *value = key ? call_string(call, at + 1) : NULL;
    if (!value)
        return false;
    struct err err = {0};
    /* it has scry run read any file, and what it reads goes through the broker */
    Omis_status confined = strcmp(key, "log") == 0 && strcmp(value, "off") != 0
                               ? confine_right(call->tool, RIGHT_LOCAL, "the setting log", &err)
                               : OMIS_OK;
    if (confined != OMIS_OK) {
        call_fail(call, object, confined, "%s", err.text);
        return false;
    }
    int code = job->monitor->agents ? agents_job_set(job->monitor->agents, job->named.dir, key, value, &err) : -ENOENT;
    bool heard = code == 0 || code == -ENOENT ? tell_setting(call, job, at) : false;
    if (code == -ENOENT && !heard)
        call_fail(call, object, OMIS_PARAMETER_ERROR, "%s: the job has no such setting, or its scry run is gone", key);
    else if (code < 0 && code != -ENOENT)
        call_fail_errno(call, object, code, &err);
    else if (code == -ENOENT && strcmp(key, "sample") == 0 && keep_sample(job, value) < 0)
        call_fail(call, object, OMIS_INTERNAL_ERROR, "out of memory");
    else
        return true;
    return false;
}

static void job_send_signal(struct scry_call *call)
{
    struct err err = {0};
    struct job *job = call_check_range(call, 2, 0, SIGRTMAX) ? job_find(call) : NULL;
    int code = job ? job_follow_signal(job->follow, (int)call_integer(call, 2)) : 0;
    if (code < 0)
        call_fail_errno(call, NULL, err_errno(&err, code, "the command of the job gets no signal"), &err);
    else if (job)
        call_ok(call, NULL);
}

static void job_set(struct scry_call *call)
{
    struct job *job = job_find(call);
    if (job && set_job(call, job, NULL, 1))
        call_ok(call, NULL);
}

/* The same of each node, which may have none of it. */
static void job_part_set(struct scry_call *call)
{
    struct monitor *monitor = call->monitor;
    for (size_t i = 0; i < call->object_count; i++) {
        struct buf text = BUF_INIT;
        uint64_t parts = 0;
        bool done = true;
        for (struct scry_object *object = monitor->objects; done && object; object = object->hh.next)
            if (job_object_is(monitor, object, call->args[1].text)) {
                parts++;
                done = set_job(call, object->data, call->objects[i], 2);
            }
        PUT(&text, parts);
        if (done)
            call_text(call, call->objects[i], &text);
        buf_done(&text);
    }
}

static void job_get_settings(struct scry_call *call)
{
    struct job *job = job_find(call);
    if (!job)
        return;
    struct buf text = BUF_INIT;
    buf_putc(&text, '[');
    if (job->monitor->agents)
        agents_job_settings(job->monitor->agents, job->named.dir, &text);
    if (job->sample) {
        buf_puts(&text, text.len > 1 ? ",\"sample\"," : "\"sample\",");
        value_print_string(&text, span_str(job->sample));
    }
    buf_putc(&text, ']');
    call_text(call, NULL, &text);
    buf_done(&text);
}

/* [name, field, ...] */
static void put_note(struct buf *text, const struct note *note)
{
    const struct note_field *fields = note_fields(note->kind);
    put_list(text);
    PUT(text, note_name(note->kind));
    for (size_t i = 0; fields[i].name[0]; i++)
        if (fields[i].type == NOTE_STRING)
            PUT(text, note->words[i].string);
        else if (fields[i].type == NOTE_FLOATING)
            PUT(text, note->words[i].floating);
        else
            PUT(text, note->words[i].integer);
    put_end(text);
}

static void put_notes(struct buf *text, const struct note *notes, size_t count)
{
    put_list(text);
    for (size_t i = 0; i < count; i++)
        put_note(text, &notes[i]);
    put_end(text);
}

/* For people. */
static void put_note_texts(struct buf *text, const struct note *notes, size_t count)
{
    struct buf all = BUF_INIT;
    for (size_t i = 0; i < count; i++) {
        buf_puts(&all, i ? "; " : "");
        note_text(&all, &notes[i]);
    }
    put_buf(text, &all);
    buf_done(&all);
}

static void job_trace_info(struct scry_call *call)
{
    struct job *job = job_find(call);
    if (!job)
        return;
    struct agents_job_state state = {0};
    if (job->monitor->agents)
        agents_job_state(job->monitor->agents, job->named.dir, &state);
    struct buf text = BUF_INIT;
    PUT(&text, state.living, state.draining, state.events, state.discarded);
    put_note_texts(&text, state.problems, state.problem_count);
    put_note_texts(&text, state.notes, state.note_count);
    PUT(&text, state.choosing, state.unmatched);
    put_notes(&text, state.notes, state.note_count);
    put_notes(&text, state.problems, state.problem_count);
    call_text(call, NULL, &text);
    buf_done(&text);
}

/* ---- its processes, for tools that ask them ---- */

struct members {
    struct scry_call *call;
    struct buf text;
    struct mpi_found *found; /* ranks, from outside */
    size_t found_count;
};

static void put_member(void *ctx, pid_t pid, pid_t ppid, const char *name)
{
    struct members *members = ctx;
    struct monitor *monitor = members->call->monitor;
    struct process *process = process_get(monitor, pid, NULL);
    const struct mpi_found *found = NULL;
    if (!process)
        return; /* it has ended */
    for (size_t i = 0; i < members->found_count && !found; i++)
        if (members->found[i].here && members->found[i].pid == pid)
            found = &members->found[i];
    PUT(&members->text, value_token(span_str(process->object.token)), pid, ppid, name, monitor->node->name,
        found ? found->namespace : "", found ? found->rank : -1, found ? found->size : -1);
}

/* Of each node its own. A node that does not know the job has none. */
static void job_get_processes(struct scry_call *call)
{
    struct monitor *monitor = call->monitor;
    for (size_t i = 0; i < call->object_count; i++) {
        struct members members = {.call = call};
        char note[256];
        if (mpi_find_ranks(&members.found, &members.found_count, note, sizeof note) < 0)
            members.found_count = 0;
        put_list(&members.text);
        for (struct scry_object *object = monitor->objects; object; object = object->hh.next) {
            if (!job_object_is(monitor, object, call->args[1].text))
                continue;
            struct job *job = object->data;
            job_follow_sample(job->follow);
            job_follow_each(job->follow, put_member, &members);
        }
        put_end(&members.text);
        call_text(call, call->objects[i], &members.text);
        buf_done(&members.text);
        free(members.found);
    }
}

const struct scry_service job_services[] = {
    {"job_create", SCRY_MANIPULATION, "string dir, integer pid -> token", SCRY_OPTIONAL | SCRY_LOCAL, job_create,
     "Follow a process and all its descendants; dir is the job directory."},
    {"job_get_info", SCRY_INFORMATION, "token<job_j>* job_list, integer cursor -> " JOB_INFO_RESULT,
     SCRY_OPTIONAL | SCRY_LOCAL, job_get_info,
     "A sample of the job's processes, and those that ended since the cursor of the last answer. source: who told the "
     "status, event or pidfd; why: it is not known; whole: 1, or 0 if arguments are missing, and 2 more if the process "
     "did not say them itself (it has no agent), or -1 if neither they nor the directory are known; of processes that "
     "live these three come when they are new. coming: processes that will be in one of the lists of a later answer, "
     "for they are too new or their ends are not known yet. unseen: processes that are counted and never listed, for "
     "all that is known is what processor time they needed. unclocked_ns: processor time, part of ended_cpu_ns, of "
     "processes of which it is not known singly, once all have ended."},
    {"job_destroy", SCRY_MANIPULATION, "token<job_j>* job_list -> void", SCRY_OPTIONAL | SCRY_LOCAL, job_destroy,
     "Stop following."},
    {"job_set", SCRY_MANIPULATION, "string job, string key, string value -> void", SCRY_OPTIONAL, job_set,
     "Change a setting of a running job, named by its directory, its id or its token: of tracing (trace, args, "
     "locals, depth, min-time, ...) or of scry run (sample, ...). Any tool may do this."},
    {"job_send_signal", SCRY_MANIPULATION, "string job, string why, integer sig -> void", SCRY_OPTIONAL,
     job_send_signal,
     "Send a signal to the command of a running job, named as for job_set; one by which people end, stop or continue "
     "jobs (SIGTERM, SIGINT, SIGQUIT, SIGKILL, SIGSTOP, SIGTSTP, SIGCONT) to all its processes on the node. why: for "
     "the record of the job, which has the request: "
     "\"page\" says that somebody asked for it on a page of scry; others say what they like, or \"\"."},
    {"job_part_set", SCRY_MANIPULATION, "token<n>* node_list, string job, string key, string value -> integer parts",
     SCRY_OPTIONAL | SCRY_LOCAL, job_part_set,
     "job_set on the nodes, for a job or the parts of one that are there; how many there are."},
    {"job_get_settings", SCRY_INFORMATION, "string job -> string* settings", SCRY_OPTIONAL, job_get_settings,
     "How a job is traced: key, value, key, value, ..., as job_set takes them."},
    {"job_get_processes", SCRY_INFORMATION, "token<n>* node_list, string job -> " JOB_MEMBER "* processes",
     SCRY_OPTIONAL, job_get_processes,
     "The processes of a job, named by its directory, its id or its token, that live on the nodes; for proc_attach. "
     "rank, ranks, mpi_job: of those that an MPI launcher has started, by which ranks are told apart; else -1, -1, "
     "\"\". Empty if the job is not known there."},
    {"job_trace_info", SCRY_INFORMATION, "string job -> " JOB_TRACE_INFO_RESULT, SCRY_OPTIONAL, job_trace_info,
     "The tracing of a job: traced processes that live, ended ones that are not yet on disk, records written and "
     "discarded, why nothing, or not everything, came, and what no trace tells. choosing: of how many living ones the "
     "symbols are still read for the selection in force; unmatched: that it means no function of any that lives; "
     "notes and problems: the same as lists of a name and fields, for programs."},
    {"job_setting_changed", SCRY_EVENT, "string job -> { string key; string value; string job }", SCRY_OPTIONAL, NULL,
     "job_set has changed a setting of the job.", .event = &setting_ops},
    {ASKED_EVENT, SCRY_EVENT, "string job -> " ASKED_RESULT, SCRY_OPTIONAL, NULL,
     "Somebody has changed something of the job, or was refused, who speaks with it through a broker. who, serial: of "
     "the key; of a tool on the node its program, pid and uid. status: of the request; why: it was refused. left_out: "
     "nothing but so many that were not told, for they came too quickly.",
     .event = &asked_ops},
    SERVICE_END,
};

/*
 * Files of a part of a job (jobdir/record/parts.h), for the node on which the job began: scry run has them brought there
 * (job/parts). Only regular files below the part's directory are read, whatever is asked for.
 */

enum { FILES_MOST = 100000, READ_MOST = 1 << 20 };

struct looking {
    uint64_t wanted, count; /* parts of the job on this node, the first is 1 */
    char *path;
    size_t size;
};

static int look_at(void *ctx, const char *dir)
{
    struct looking *looking = ctx;
    if (++looking->count == looking->wanted)
        snprintf(looking->path, looking->size, "%s", dir);
    return 0;
}

/* The directory of a part on this node, and how many there are; 0: answered that there is none. Where several launchers
 * came to a node, the first part has the others in it (job/run/part.c). */
static uint64_t find_part(struct scry_call *call, char *ret_path, size_t size)
{
    struct err err = {0};
    char first[PATH_MAX];
    const char *job = call_string(call, 1);
    struct looking looking = {.wanted = call_unsigned(call, 2), .path = ret_path, .size = size};
    if (!job || !call_check_range(call, 2, 1, PARTS_MOST))
        return 0;
    int code = strchr(job, '/') ? err_set(&err, -EINVAL, "expected the id of a job, not a path: %s", job)
                                : jobdir_find_only(job, first, sizeof first, &err);
    if (code == 0)
        code = job_dirs_each(first, look_at, &looking);
    if (code == 0 && looking.wanted > looking.count)
        code = err_set(&err, -ENOENT, "there is no part %" PRIu64 " of job %s here", looking.wanted, job);
    if (code < 0)
        call_fail_errno(call, call->object_count ? call->objects[0] : NULL, code, &err);
    return code < 0 ? 0 : looking.count;
}

/* ---- the list ---- */

static void job_part_files(struct scry_call *call)
{
    char path[PATH_MAX], host[256] = "";
    uint64_t parts = call->object_count ? find_part(call, path, sizeof path) : 0;
    if (!parts)
        return;
    gethostname(host, sizeof host - 1);
    char *paths[] = {path, NULL};
    FTS *tree = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR | FTS_COMFOLLOW, NULL);
    struct buf text = BUF_INIT;
    size_t count = 0;
    PUT(&text, path);
    put_list(&text);
    for (FTSENT *entry; tree && count < FILES_MOST && (entry = fts_read(tree));) {
        if (entry->fts_info == FTS_D && entry->fts_level == 1 && strcmp(entry->fts_name, "parts") == 0)
            fts_set(tree, entry, FTS_SKIP);
        if (entry->fts_info != FTS_F)
            continue;
        const struct timespec *changed = &entry->fts_statp->st_mtim;
        PUT(&text, entry->fts_path + strlen(path) + 1, (uint64_t)entry->fts_statp->st_size,
            (int64_t)(changed->tv_sec * NS_PER_SECOND + changed->tv_nsec));
        count++;
    }
    put_end(&text);
    PUT(&text, host, parts);
    if (tree)
        fts_close(tree);
    call_text(call, call->objects[0], &text);
    buf_done(&text);
}

/* ---- one of them ---- */

/* Nothing leads out of the directory: no link, and no "..". */
static int open_below(const char *dir, const char *name)
{
    struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    _cleanup_(closep) int at = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct stat st;
    if (at < 0)
        return -errno;
    int fd = (int)syscall(SYS_openat2, at, name, &how, sizeof how);
    int code = fd < 0 ? -errno : fstat(fd, &st) < 0 ? -errno : S_ISREG(st.st_mode) ? 0 : -EINVAL;
    if (code < 0 && fd >= 0)
        close(fd);
    return code < 0 ? code : fd;
}

static void job_part_read(struct scry_call *call)
{
    char path[PATH_MAX];
    struct err err = {0};
    if (!call->object_count || !call_check_range(call, 4, 0, INT64_MAX) || !call_check_range(call, 5, 1, READ_MOST) ||
        !find_part(call, path, sizeof path))
        return;
    const char *name = call_string(call, 3);
    if (!name)
        return;
    _cleanup_(closep) int fd = open_below(path, name);
    _cleanup_(freep) char *bytes = malloc(call_unsigned(call, 5));
    ssize_t got = fd < 0  ? fd
                  : bytes ? pread(fd, bytes, call_unsigned(call, 5), (off_t)call_unsigned(call, 4))
                          : -ENOMEM;
    got = got == -1 && fd >= 0 ? -errno : got;
    if (got < 0) {
        err_errno(&err, (int)got, "cannot read %s of %s", name, path);
        call_fail_errno(call, call->objects[0], (int)got, &err);
        return;
    }
    struct buf text = BUF_INIT;
    value_print_binary(&text, (struct span){bytes, (size_t)got});
    call_text(call, call->objects[0], &text);
    buf_done(&text);
}

/* ---- the end ---- */

static void job_part_brought(struct scry_call *call)
{
    char path[PATH_MAX], mark[PATH_MAX];
    struct err err = {0};
    if (!call->object_count || !find_part(call, path, sizeof path))
        return;
    bool fits = (size_t)snprintf(mark, sizeof mark, "%s/" PART_BROUGHT, path) < sizeof mark;
    _cleanup_(closep) int fd = fits ? file_open_own(AT_FDCWD, mark, O_WRONLY | O_CREAT) : -ENAMETOOLONG;
    if (fd >= 0) {
        call_ok(call, call->objects[0]);
        return;
    }
    err_errno(&err, fd, "cannot make %s/" PART_BROUGHT, path);
    call_fail_errno(call, call->objects[0], fd, &err);
}

const struct scry_service job_part_services[] = {
    {"job_part_files", SCRY_INFORMATION, "token<n>* node_list, string job, integer part -> " JOB_PART_FILES,
     SCRY_OPTIONAL | SCRY_LOCAL, job_part_files,
     "The files of a part that a job, by its id, has on a node: where it is, of each file its name, its size, and when "
     "it was changed, ns since 1970; then the node as it calls itself, and how many parts the job has there. The first "
     "part is 1."},
    {"job_part_read", SCRY_INFORMATION,
     "token<n>* node_list, string job, integer part, string file, integer<bytes> offset, integer<bytes> count -> "
     "binary",
     SCRY_OPTIONAL | SCRY_LOCAL, job_part_read, "So many bytes of such a file, at most 1 MB, fewer at its end."},
    {"job_part_brought", SCRY_MANIPULATION, "token<n>* node_list, string job, integer part -> void",
     SCRY_OPTIONAL | SCRY_LOCAL, job_part_brought,
     "All files of the part were read after its end: it need not wait any longer."},
    SERVICE_END,
};
