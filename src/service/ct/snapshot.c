/* SPDX-License-Identifier: Apache-2.0 */
#include "base/system/clock.h"
#include "base/system/file.h"
#include "jobdir/trace/profile.h"
#include "lang/value.h"
#include "monitor/engine/execute.h"
#include "monitor/engine/event.h"
#include "monitor/engine/object.h"
#include "monitor/recorder/agents.h"
#include "probe/proc.h"
#include "service/ct/ct.h"
#include "shm/waits.h"
#include "symbols/client/helper.h"
#include "symbols/python/python.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * ct_get_stacks and ct_get_stack_values: where all threads of processes are, read by scry-symbols (symbols/helper/jobs.h), which stops
 * nothing. The answers have no addresses and no numbers of processes, so processes that do the same have the same one,
 * which is sent once.
 */

enum { STACKS_DEPTH = 256 };

/* A ct_get_stacks in progress, in the call's arena. */
struct question {
    struct helper_job *job;
    struct later *later;
    char (*tokens)[TOKEN_TEXT_SIZE];
    bool *answered;
    pid_t *pids;
    size_t count;
    size_t at; /* of the process whose stacks come; count: of none */
    bool in_stack, in_frame;
    bool values; /* of variables, too */
    struct buf text;
    struct err err;
};

static void end_frame(struct question *question)
{
    if (question->in_frame)
        put_end(&question->text);
    question->in_frame = false;
}

static void end_stack(struct question *question)
{
    end_frame(question);
    if (question->in_stack)
        put_end(&question->text);
    question->in_stack = false;
}

static void answer_process(struct question *question, struct scry_call *call)
{
    if (question->at == question->count)
        return;
    end_stack(question);
    put_end(&question->text);
    struct scry_object *object = object_find(call->monitor, span_str(question->tokens[question->at]));
    if (object)
        call_text(call, object, &question->text);
    else
        call_fail(call, NULL, OMIS_UNKNOWN_OBJECT, "%s has ended", question->tokens[question->at]);
    question->answered[question->at] = true;
    question->at = question->count;
}

static void begin_process(struct question *question, const struct helper_answer *said)
{
    for (size_t i = 0; i < question->count; i++)
        if (question->pids[i] == (pid_t)said->id && !question->answered[i])
            question->at = i;
    buf_clear(&question->text);
    PUT(&question->text, said->name, said->text);
    put_list(&question->text);
}

static void take_stacks(struct question *question, struct scry_call *call, const struct helper_answer *said)
{
    switch (said->kind) {
    case HELPER_PROCESS:
        answer_process(question, call);
        begin_process(question, said);
        return;
    case HELPER_STACK:
        end_stack(question);
        PUT(&question->text, said->name, said->id, said->size, said->first);
        put_list(&question->text);
        question->in_stack = true;
        return;
    case HELPER_FRAME:
        end_frame(question);
        PUT(&question->text, said->type, said->name, said->file, said->id, said->path);
        if (question->values)
            put_list(&question->text);
        question->in_frame = question->values;
        return;
    case HELPER_VARIABLE:
        if (question->in_frame)
            PUT(&question->text, said->name, said->type, said->text);
        return;
    case HELPER_FAILED:
        err_set(&question->err, -EIO, "%s", said->text);
        return;
    case HELPER_DONE:
        answer_process(question, call);
        return;
    default:
        return;
    }
}

static void answer_rest(struct question *question, struct scry_call *call)
{
    if (!question->err.code)
        err_set(&question->err, -EIO, "scry-symbols ended before it had read this process");
    for (size_t i = 0; i < question->count; i++) {
        struct scry_object *object = object_find(call->monitor, span_str(question->tokens[i]));
        if (!question->answered[i])
            call_fail_errno(call, object, object ? question->err.code : -ESRCH, &question->err);
    }
    buf_done(&question->text);
}

static void snapshot_cancelled(void *ctx)
{
    struct question *question = ctx;
    helper_cancel(question->job);
    buf_done(&question->text);
}

static void said(void *ctx, const struct helper_answer *answer)
{
    struct question *question = ctx;
    struct scry_call *call = call_later_begin(question->later);
    if (answer)
        take_stacks(question, call, answer);
    else
        answer_rest(question, call);
    call_later_end(question->later, !answer);
}

/* Lists that may not be interrupted. */
static void ask_now(struct question *question, struct scry_call *call, const struct buf *request)
{
    struct helper_reader reader;
    struct helper_answer answer;
    int code = ct_helper_run("stacks", request, &reader, &question->err);
    while (code == 0 && helper_next(&reader, &answer, &question->err) > 0)
        take_stacks(question, call, &answer);
    helper_reader_done(&reader);
    answer_rest(question, call);
}

static void put_request(struct buf *request, const struct question *question, const struct scry_call *call,
                        unsigned seconds)
{
    char number[24];
    snprintf(number, sizeof number, "%llu", (unsigned long long)call_unsigned(call, 1));
    helper_line(request, "depth", number, NULL);
    if (question->values) {
        snprintf(number, sizeof number, "%llu", (unsigned long long)call_unsigned(call, 2));
        helper_line(request, "values", number, NULL);
    }
    snprintf(number, sizeof number, "%u", seconds);
    helper_line(request, "seconds", number, NULL);
    for (size_t i = 0; i < question->count; i++) {
        snprintf(number, sizeof number, "%d", question->pids[i]);
        helper_line(request, "process", number, NULL);
    }
    helper_line(request, "end", NULL);
}

static void get_stacks(struct scry_call *call, bool values)
{
    const size_t count = call->object_count;
    if (!call_check_range(call, 1, 1, STACKS_DEPTH) || (values && !call_check_range(call, 2, 0, HELPER_DEPTH_MAX)) ||
        !count)
        return;
    struct question *question = arena_zalloc(call->arena, 1, sizeof *question);
    if (question) {
        question->tokens = arena_zalloc(call->arena, count, sizeof *question->tokens);
        question->answered = arena_zalloc(call->arena, count, sizeof *question->answered);
        question->pids = arena_zalloc(call->arena, count, sizeof *question->pids);
    }
    if (!question || !question->tokens || !question->answered || !question->pids) {
        call_fail(call, NULL, OMIS_NO_MEMORY, "out of memory");
        return;
    }
    question->count = question->at = count;
    question->values = values;
    for (size_t i = 0; i < count; i++) {
        snprintf(question->tokens[i], TOKEN_TEXT_SIZE, "%s", call->objects[i]->token);
        question->pids[i] = call_process(call, i)->pid;
    }
    question->later = call->monitor->agents ? call_later(call, snapshot_cancelled, question) : NULL;
    struct buf request = BUF_INIT;
    put_request(&request, question, call,
                question->later ? STACKS_SECONDS : (unsigned)(CT_HELPER_NS / NS_PER_SECOND) - 2);
    if (!question->later) {
        ask_now(question, call, &request);
        buf_done(&request);
        return;
    }
    question->job =
        helper_start_at_once(call->monitor->agents, "stacks", &request,
                             (STACKS_SECONDS + STACKS_MORE_SECONDS) * (uint64_t)NS_PER_SECOND, said, question);
    if (question->job)
        return;
    struct scry_call *later = call_later_begin(question->later);
    err_set(&question->err, -ENOMEM, "out of memory");
    answer_rest(question, later);
    call_later_end(question->later, true);
}

void ct_get_stacks(struct scry_call *call)
{
    get_stacks(call, false);
}

void ct_get_stack_values(struct scry_call *call)
{
    get_stacks(call, true);
}

/*
 * ct_snapshot: what a process does now, as one JSON file JOBDIR/snapshots/NNNN.json. Open calls come from the agent's
 * shadow stacks, which needs no stop. For stacks with variables, the threads are stopped while they are read.
 */

enum {
    SNAPSHOT_FILES = 9999,
    SNAPSHOT_CALLS = 1024, /* open calls of a thread, the innermost */
    SNAPSHOT_THREADS = 256,
    SNAPSHOT_MEMORY = 16 << 20, /* bytes of one range */
    SNAPSHOT_DEPTH = 2,         /* pointers followed in variables */
};

enum part { PART_CALLS = 1, PART_STACKS = 2, PART_VARIABLES = 4, PART_TREE = 8, PART_ALL = 15 };

struct snapshot {
    struct scry_call *call;
    struct process *process;
    struct agent *agent;
    unsigned parts; /* enum part bits */
    struct buf json;
    struct python_stacks python;         /* of all its threads, while they are stopped */
    const struct python_thread *current; /* of the stack that is being written; NULL: it is not in Python */
    size_t next;                         /* of its frames */
};

/* ---- JSON ---- */

/* Appends `"text"` as JSON. */
static void ct_json_string(struct buf *out, const char *text, size_t len)
{
    buf_putc(out, '"');
    for (size_t i = 0; i < len;) {
        unsigned char c = (unsigned char)text[i];
        size_t wide = c >= 0x80 ? utf8_length(text + i, len - i) : 0;
        if (wide) {
            buf_append(out, text + i, wide);
        } else if (c >= 0x80) {
            buf_puts(out, "\\ufffd");
        } else if (c < 0x20 || c == 0x7f) {
            buf_printf(out, "\\u%04x", c);
        } else {
            if (c == '"' || c == '\\')
                buf_putc(out, '\\');
            buf_putc(out, (char)c);
        }
        i += wide ? wide : 1;
    }
    buf_putc(out, '"');
}

static void member(struct buf *json, const char *name)
{
    char last = json->len ? json->data[json->len - 1] : '{';
    buf_printf(json, "%s\"%s\":", last == '{' ? "" : ",", name);
}

static void element_put(struct buf *json)
{
    char last = json->len ? json->data[json->len - 1] : '[';
    buf_puts(json, last == '[' ? "\n" : ",\n");
}

static void member_string(struct buf *json, const char *name, const char *text)
{
    member(json, name);
    ct_json_string(json, text, strlen(text));
}

static void member_uint(struct buf *json, const char *name, uint64_t number)
{
    member(json, name);
    buf_printf(json, "%llu", (unsigned long long)number);
}

/* Addresses are text, because readers of JSON have doubles. */
static void member_address(struct buf *json, const char *name, uint64_t address)
{
    member(json, name);
    buf_printf(json, "\"%#llx\"", (unsigned long long)address);
}

static void member_place(struct buf *json, struct agent *agent, uint32_t slot)
{
    struct ct_place place;
    ct_place(agent, slot, &place);
    member_string(json, "function", place.name);
    member_string(json, "file", place.file);
    member_uint(json, "line", place.line);
}

/* ---- parts ---- */

/* The parameters of the event that caused the snapshot. */
static void put_event(struct snapshot *snapshot)
{
    const struct event *event = snapshot->call->event;
    struct buf *json = &snapshot->json;
    if (!event)
        return;
    member(json, "event");
    buf_putc(json, '{');
    member_string(json, "service", event->service->row->name);
    if (event->thread)
        member_uint(json, "tid", (uint64_t)event->thread->tid);
    const struct signature *signature = &event->service->signature;
    for (size_t i = 0; i < event->output_count && i < signature->output_count; i++) {
        const struct value *value = &event->outputs[i];
        struct span name = signature->outputs[i].name;
        if (value->kind == VALUE_LIST)
            continue; /* the text beside it says the same */
        buf_printf(json, ",\"%.*s\":", SPAN_ARG(name));
        struct buf text = BUF_INIT;
        if (value->kind == VALUE_STRING)
            ct_json_string(json, value->text.ptr, value->text.len);
        else if (value->kind == VALUE_INTEGER) {
            value_print(json, value);
        } else {
            value_print(&text, value);
            ct_json_string(json, text.data ? text.data : "", text.len);
        }
        buf_done(&text);
    }
    buf_putc(json, '}');
}

static void put_calls(struct snapshot *snapshot, const struct area_thread *block)
{
    struct buf *json = &snapshot->json;
    uint32_t depth = atomic_load(&block->depth), first = depth > SNAPSHOT_CALLS ? depth - SNAPSHOT_CALLS : 0;
    size_t size = (depth - first) * sizeof(struct agent_frame);
    struct agent_frame *frames = depth ? malloc(size) : NULL;
    member_uint(json, "open_calls", depth);
    member(json, "calls");
    buf_putc(json, '[');
    uint64_t at = 0;
    bool known = false;
    while (frames && !known && at != atomic_load(&block->frames)) { /* a stack that grows goes elsewhere */
        at = atomic_load(&block->frames);
        known = proc_memory_read(snapshot->process->pid, at + first * sizeof *frames, frames, size, NULL) == 0;
    }
    if (known)
        for (uint32_t i = depth - first; i-- > 0;) {
            element_put(json);
            buf_putc(json, '{');
            member_place(json, snapshot->agent, frames[i].slot);
            member_address(json, "address", frames[i].function);
            member_address(json, "caller", frames[i].callsite);
            member_uint(json, "entered_ns", ct_time_ns(snapshot->agent, frames[i].time));
            buf_putc(json, '}');
        }
    buf_putc(json, ']');
    free(frames);
}

static void put_threads(struct snapshot *snapshot)
{
    const struct area_view *view = agent_view(snapshot->agent);
    struct buf *json = &snapshot->json;
    member(json, "threads");
    buf_putc(json, '[');
    for (uint32_t i = 0; i < view->thread_count; i++) {
        const struct area_thread *block = area_thread_at(view, i);
        if (atomic_load(&block->state) != AREA_THREAD_LIVE)
            continue;
        element_put(json);
        buf_putc(json, '{');
        member_uint(json, "tid", block->tid);
        member(json, "name");
        ct_json_string(json, block->name, strnlen(block->name, sizeof block->name));
        put_calls(snapshot, block);
        buf_putc(json, '}');
    }
    buf_putc(json, ']');
}

/* The functions of Python of one call of the interpreter, or all that are left. */
static void put_python(struct snapshot *snapshot, bool all)
{
    struct buf *json = &snapshot->json;
    bool more = snapshot->current && snapshot->next < snapshot->current->count;
    if (!more)
        return;
    member(json, "python");
    buf_putc(json, '[');
    while (more) {
        const struct python_frame *frame = &snapshot->current->frames[snapshot->next++];
        element_put(json);
        buf_putc(json, '{');
        member_string(json, "function", frame->function);
        member_string(json, "file", frame->file);
        if (frame->line >= 0)
            member_uint(json, "line", (uint64_t)frame->line);
        buf_putc(json, '}');
        more = snapshot->next < snapshot->current->count && (all || !frame->entry);
    }
    buf_putc(json, ']');
}

static void find_python(struct snapshot *snapshot, pid_t tid)
{
    snapshot->current = NULL;
    snapshot->next = 0;
    for (size_t i = 0; i < snapshot->python.count; i++)
        if (snapshot->python.threads[i].tid == tid)
            snapshot->current = &snapshot->python.threads[i];
}

/* Puts one frame of a machine stack; its variables follow later. `innermost`: its address is the program counter, else
 * a return address. */
static void put_frame(struct snapshot *snapshot, const struct tracer_frame *frame, bool innermost, uint32_t number)
{
    struct buf *json = &snapshot->json, name = BUF_INIT;
    element_put(json);
    buf_putc(json, '{');
    member_uint(json, "frame", number);
    member_address(json, "pc", frame->pc);
    member_address(json, "cfa", frame->cfa);
    if (agent_name_address(snapshot->agent, innermost ? frame->pc : frame->pc - 1, &name)) {
        member(json, "function");
        ct_json_string(json, name.data ? name.data : "", name.len);
        static const char interpreter[] = "_PyEval_EvalFrameDefault";
        if (name.data && strncmp(name.data, interpreter, strlen(interpreter)) == 0)
            put_python(snapshot, false);
    }
    buf_done(&name);
}

static void put_variable(struct buf *json, const struct helper_answer *answer, uint32_t number)
{
    element_put(json);
    buf_putc(json, '{');
    member_uint(json, "frame", number);
    member_string(json, "name", answer->name);
    member_string(json, "type", answer->type);
    member_string(json, "value", answer->text);
    buf_putc(json, '}');
}

/* The program's own frames of a thread are numbered from 0; NOT_SHOWN marks the agent's. */
#define NOT_SHOWN UINT32_MAX

static void put_variables(struct snapshot *snapshot, struct buf *request, const uint32_t *numbers, size_t count)
{
    struct buf *json = &snapshot->json;
    struct helper_reader reader = {0};
    struct helper_answer answer;
    struct err err = {0};
    helper_line(request, "name", "*", NULL);
    helper_line(request, "end", NULL);
    member(json, "variables");
    buf_putc(json, '[');
    int code = ct_helper_run("variable", request, &reader, &err);
    while (code == 0 && helper_next(&reader, &answer, &err) > 0) {
        bool variable = answer.kind == HELPER_VARIABLE;
        if (variable && answer.id < count && numbers[answer.id] != NOT_SHOWN)
            put_variable(json, &answer, numbers[answer.id]);
        else if (answer.kind == HELPER_FAILED)
            err_set(&err, -EIO, "%s", answer.text);
    }
    buf_putc(json, ']');
    if (err.text[0])
        member_string(json, "variables_problem", err.text);
    helper_reader_done(&reader);
}

static void put_stack(struct snapshot *snapshot, struct thread *thread)
{
    struct buf *json = &snapshot->json, request = BUF_INIT;
    struct tracer_frame *frames = NULL;
    size_t count = 0;
    uint32_t numbers[CT_FRAMES], shown = 0;
    struct ct_range agent;
    struct err err = {0};
    element_put(json);
    buf_putc(json, '{');
    member_uint(json, "tid", (uint64_t)thread->tid);
    find_python(snapshot, thread->tid);
    int code = ct_request_begin(&request, snapshot->process, SNAPSHOT_DEPTH, &agent, &err);
    if (code == 0)
        code = ct_request_frames(&request, thread, &frames, &count, &err);
    if (code == 0) {
        member(json, "frames");
        buf_putc(json, '[');
        for (size_t i = 0; i < count && i < CT_FRAMES; i++) {
            bool own = frames[i].pc >= agent.start && frames[i].pc < agent.end;
            numbers[i] = own ? NOT_SHOWN : shown++;
            if (own)
                continue;
            put_frame(snapshot, &frames[i], i == 0, numbers[i]);
            buf_putc(json, '}');
        }
        buf_putc(json, ']');
        put_python(snapshot, true); /* what the interpreter has no names for */
        if (snapshot->parts & PART_VARIABLES)
            put_variables(snapshot, &request, numbers, count);
        free(frames);
    } else {
        member_string(json, "problem", err.text);
    }
    buf_putc(json, '}');
    buf_done(&request);
}

static void put_stacks(struct snapshot *snapshot)
{
    struct process *process = snapshot->process;
    struct buf *json = &snapshot->json;
    struct thread *threads[SNAPSHOT_THREADS];
    struct err err = {0};
    size_t count = 0;
    process_refresh(process, 0);
    for (struct thread *thread = process->threads; thread && count < SNAPSHOT_THREADS; thread = thread->hh.next)
        threads[count++] = thread;
    if (!count || ct_threads_stop(threads, count, &err) < 0) {
        member_string(json, "stacks_problem", err.text[0] ? err.text : "the process has ended");
        return;
    }
    struct python_program program;
    const struct python_memory memory = python_memory_of(&process->pid);
    if (python_find(&program, process->pid) == 0)
        python_read(&snapshot->python, &program, &memory, 0, PYTHON_FRAMES);
    member(json, "stacks");
    buf_putc(json, '[');
    for (size_t i = 0; i < count; i++)
        put_stack(snapshot, threads[i]);
    buf_putc(json, ']');
    python_stacks_done(&snapshot->python);
    ct_threads_continue(threads, count);
    if (count == SNAPSHOT_THREADS)
        member_string(json, "stacks_problem", "only the first 256 threads are shown");
}

static void put_tree(struct snapshot *snapshot)
{
    struct profile_node *nodes = NULL;
    size_t count = 0;
    struct buf *json = &snapshot->json;
    agent_collect(snapshot->agent);
    const struct profile *profile = agent_profile(snapshot->agent);
    if (!profile || profile_tree(profile, &nodes, &count) < 0)
        return;
    member(json, "call_tree");
    buf_putc(json, '[');
    for (size_t i = 0; i < count; i++) {
        element_put(json);
        buf_putc(json, '{');
        member_uint(json, "depth", nodes[i].depth);
        if (nodes[i].function < PROFILE_OTHERS)
            member_place(json, snapshot->agent, nodes[i].function);
        else
            member_string(json, "function", "(others)");
        member_uint(json, "calls", nodes[i].calls);
        member_uint(json, "total_ns", (uint64_t)ct_duration_ns(snapshot->agent, nodes[i].total));
        buf_putc(json, '}');
    }
    buf_putc(json, ']');
    free(nodes);
}

static void put_range(struct snapshot *snapshot, uint64_t address, uint64_t size)
{
    struct buf *json = &snapshot->json;
    unsigned char *bytes = malloc(size + 1);
    element_put(json);
    buf_putc(json, '{');
    member_address(json, "address", address);
    member_uint(json, "size", size);
    char *hex = NULL;
    if (bytes && proc_memory_read(snapshot->process->pid, address, bytes, size, NULL) == 0) {
        member(json, "hex");
        hex = buf_reserve(json, 2 * size + 3);
    }
    if (hex) {
        static const char digits[] = "0123456789abcdef";
        *hex++ = '"';
        for (uint64_t i = 0; i < size; i++) {
            *hex++ = digits[bytes[i] >> 4];
            *hex++ = digits[bytes[i] & 15];
        }
        *hex = '"';
        json->len += 2 * size + 2;
    } else {
        member_string(json, "problem", "<not available>");
    }
    buf_putc(json, '}');
    free(bytes);
}

/* ---- what was asked for ---- */

static bool is_range(const struct value *items, size_t count)
{
    return count >= 3 && items[1].kind == VALUE_INTEGER && items[2].kind == VALUE_INTEGER &&
           items[2].integer.bits <= SNAPSHOT_MEMORY;
}

/* Reads the parts named in `what`, and writes its memory ranges with `snapshot`. -1: wrong, which was answered. */
static int read_what(struct scry_call *call, struct snapshot *snapshot)
{
    static const char *const names[] = {"calls", "stacks", "variables", "tree"};
    const struct value *items = call->args[1].list.items;
    size_t count = call->args[1].list.count;
    int parts = 0;
    for (size_t i = 0; i < count; i++) {
        if (items[i].kind == VALUE_STRING && span_is(items[i].text, "memory") && is_range(items + i, count - i)) {
            if (snapshot)
                put_range(snapshot, items[i + 1].integer.bits, items[i + 2].integer.bits);
            i += 2;
            continue;
        }
        int found = 0;
        for (int k = 0; k < 4; k++)
            if (items[i].kind == VALUE_STRING && span_is(items[i].text, names[k]))
                found = 1 << k;
        if (!found) {
            call_fail(call, NULL, OMIS_PARAMETER_ERROR,
                      "what: element %zu: expected \"calls\", \"stacks\", \"variables\", \"tree\", and \"memory\" "
                      "followed by an address and a length of at most %d",
                      i + 1, SNAPSHOT_MEMORY);
            return -1;
        }
        parts |= found;
    }
    return parts & PART_VARIABLES ? parts | PART_STACKS : parts ? parts : PART_ALL;
}

/* ---- the file ---- */

/* Creates a file that does not exist. Returns its descriptor, or -errno with err. */
static int new_file(const char *dir, char *ret_path, size_t size, struct err *err)
{
    if (!*dir)
        return err_set(err, -ENOENT,
                       "the process belongs to no job, so there is no directory for a snapshot: start it "
                       "with `scry run`");
    if (snprintf(ret_path, size, "%s/snapshots", dir) >= (int)size - 16)
        return err_set(err, -ENAMETOOLONG, "%s: the name is too long", dir);
    if (mkdir(ret_path, 0700) < 0 && errno != EEXIST)
        return err_errno(err, -errno, "cannot make %s", ret_path);
    for (int number = 1; number <= SNAPSHOT_FILES; number++) {
        snprintf(ret_path, size, "%s/snapshots/%04d.json", dir, number);
        int fd = file_open_own(AT_FDCWD, ret_path, O_WRONLY | O_CREAT | O_EXCL);
        if (fd != -EEXIST)
            return fd >= 0 ? fd : err_errno(err, fd, "cannot create %s", ret_path);
    }
    return err_set(err, -EMFILE, "%s/snapshots: there are %d snapshots already", dir, SNAPSHOT_FILES);
}

static int value_save(const struct snapshot *snapshot, char *ret_path, size_t size, struct err *err)
{
    if (snapshot->json.failed)
        return err_set(err, -ENOMEM, "out of memory");
    int fd = new_file(agent_job(snapshot->agent), ret_path, size, err);
    if (fd < 0)
        return fd;
    int code = file_write_all(fd, snapshot->json.data, snapshot->json.len);
    close(fd);
    if (code == 0)
        return 0;
    unlink(ret_path);
    return err_errno(err, code, "cannot write %s", ret_path);
}

static int snapshot_take(struct snapshot *snapshot, char *ret_path, size_t size, struct err *err)
{
    struct buf *json = &snapshot->json;
    char exe[PATH_MAX] = "";
    proc_exe(snapshot->process->pid, exe, sizeof exe);
    buf_putc(json, '{');
    member_uint(json, "version", 1);
    member_uint(json, "wall_ns", clock_wall_ns());
    member_uint(json, "monotonic_ns", clock_now_ns());
    member_uint(json, "pid", (uint64_t)snapshot->process->pid);
    member_string(json, "exe", exe);
    put_event(snapshot);
    if (snapshot->parts & PART_CALLS)
        put_threads(snapshot);
    if (snapshot->parts & PART_STACKS)
        put_stacks(snapshot);
    if (snapshot->parts & PART_TREE)
        put_tree(snapshot);
    member(json, "memory");
    buf_putc(json, '[');
    read_what(snapshot->call, snapshot);
    buf_puts(json, "]}\n");
    return value_save(snapshot, ret_path, size, err);
}

void ct_snapshot(struct scry_call *call)
{
    int parts = read_what(call, NULL);
    for (size_t i = 0; parts >= 0 && i < call->object_count; i++) {
        struct err err = {0};
        char path[PATH_MAX];
        struct snapshot snapshot = {.call = call, .process = call_process(call, i), .parts = (unsigned)parts};
        snapshot.agent = ct_agent(snapshot.process, &err);
        int code = snapshot.agent ? snapshot_take(&snapshot, path, sizeof path, &err) : -EOPNOTSUPP;
        struct buf text = BUF_INIT;
        if (code < 0) {
            call_fail_errno(call, call->objects[i], code, &err);
        } else {
            value_print_string(&text, span_str(path));
            call_text(call, call->objects[i], &text);
        }
        buf_done(&text);
        buf_done(&snapshot.json);
    }
}
