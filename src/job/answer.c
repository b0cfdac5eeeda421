/* SPDX-License-Identifier: Apache-2.0 */
#include "job/answer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "jobdir/text.h"
#include "lang/reply.h"
#include "lang/request.h"

/* The members of job_get_info's answer, and of its two flat lists (doc/reference/services.md). */
enum {
    JOB_CURSOR,
    JOB_TIME,
    JOB_SINGLY,
    JOB_REASON,
    JOB_LOST,
    JOB_STARTED,
    JOB_ENDED,
    JOB_ENDED_CPU,
    JOB_PEAK_PROCESSES,
    JOB_PEAK_THREADS,
    JOB_FORGOTTEN,
    JOB_ENDED_COUNT,
    JOB_ENDED_LIST,
    JOB_ALIVE_COUNT,
    JOB_ALIVE_LIST,
    JOB_MEMBERS, /* of every version; the rest may be missing */
    JOB_COMING = JOB_MEMBERS,
    JOB_UNSEEN,
    JOB_UNCLOCKED
};
enum {
    END_PID,
    END_PPID,
    END_START,
    END_END,
    END_CPU,
    END_STATUS,
    END_THREADS,
    END_PEAK,
    END_NAME,
    END_SOURCE,
    END_WHY,
    END_COMMAND,
    END_MEMBERS = END_COMMAND + 3
};
/* END_COMMAND, ALIVE_COMMAND */
enum { COMMAND_WHOLE, COMMAND_DIRECTORY, COMMAND_ARGS };
enum {
    ALIVE_PID,
    ALIVE_PPID,
    ALIVE_START,
    ALIVE_CPU,
    ALIVE_RSS,
    ALIVE_PEAK,
    ALIVE_THREADS,
    ALIVE_STATE,
    ALIVE_NAME,
    ALIVE_COMMAND,
    ALIVE_MEMBERS = ALIVE_COMMAND + 3
};

/* The first result of the action `index` (from 1), or NULL with err. */
static const char *result_of(Omis_reply reply, size_t index, struct err *err)
{
    if (!reply || !reply[0]) {
        err_set(err, -EBADMSG, "the monitor's reply is empty");
        return NULL;
    }
    for (size_t i = 0; i <= index; i++) {
        if (!reply[i]) {
            err_set(err, -EBADMSG, "the monitor's reply has no answer to action %zu", index);
            return NULL;
        }
        const Omis_object_result *result = reply[i];
        if ((i == 0 || i == index) && result->obj_list && result->status >= OMIS_FIRST_ERROR) {
            err_set(err, -EIO, "%s: %s", omis_status_name(result->status), result->result ? result->result : "");
            return NULL;
        }
    }
    if (!reply[index]->obj_list || !reply[index]->result) {
        err_set(err, -EBADMSG, "the monitor gave no result for action %zu", index);
        return NULL;
    }
    return reply[index]->result;
}

int answer_token(Omis_reply reply, char *ret_token, size_t size, struct err *err)
{
    const char *text = result_of(reply, 2, err);
    if (!text)
        return err && err->code ? err->code : -EBADMSG;
    if ((size_t)snprintf(ret_token, size, "%s", text) >= size)
        return err_set(err, -EBADMSG, "the monitor's token for the job is too long");
    return 0;
}

static uint64_t as_count(const struct value *value)
{
    if (value->kind != VALUE_INTEGER || value->integer.negative)
        return 0;
    return value->integer.bits;
}

static double as_number(const struct value *value)
{
    if (value->kind == VALUE_FLOATING)
        return value->floating.number;
    return value->kind == VALUE_INTEGER ? (double)(int64_t)value->integer.bits : 0;
}

/* What is not known is -1. */
static json_t *as_json_count(const struct value *value, uint64_t unit)
{
    if (value->kind != VALUE_INTEGER || value->integer.negative)
        return json_null();
    uint64_t number = value->integer.bits * unit;
    return json_integer((json_int_t)number);
}

static const char *text_of(struct arena *arena, const struct value *value)
{
    const char *text = value->kind == VALUE_STRING ? arena_dup(arena, value->text.ptr, value->text.len) : NULL;
    return text ? text : "";
}

static json_t *as_json_text(struct arena *arena, const struct value *value)
{
    return text_json(text_of(arena, value));
}

/* Bits 0 to 3 in order: name; os_name, os_version, os_release, os_nodename, os_boottime; cpu_arch, cpu_num,
 * cpu_maxproc, cpu_clock, cpu_intbench, cpu_fpbench; mem_numpages, mem_pagesize, mem_bench. */
enum {
    NODE_NAME,
    NODE_OS,
    NODE_RELEASE = 3,
    NODE_ARCH = 6,
    NODE_CPUS = 7,
    NODE_PAGES = 12,
    NODE_PAGE_BYTES = 13,
    NODE_STATIC_MEMBERS = 15
};
/* Bits 8 to 12: cpu_rql, cpu_dwj, cpu_pwj, cpu_slj, cpu_swj, cpu_rql1, cpu_rql5, cpu_rql15; mem_freepages,
 * mem_usedpages, mem_freeswap; vm_swap, vm_swapin, vm_swapout, vm_page, vm_pagein, vm_pageout; dsk_rawrd, dsk_rawwr,
 * dsk_nfsrd, dsk_nfswr, dsk_sysrd, dsk_syswr; net_lpkt, net_fpkt, ... */
enum {
    NODE_RUN_QUEUE,
    NODE_DISK_WAIT,
    NODE_LOAD1 = 5,
    NODE_FREE_PAGES = 8,
    NODE_FREE_SWAP = 10,
    NODE_PAGES_IN = 15,
    NODE_PAGES_OUT,
    NODE_DISK_READS,
    NODE_DISK_WRITES,
    NODE_LOCAL_PACKETS = 23,
    NODE_FAST_PACKETS,
    NODE_SAMPLE_MEMBERS = 30
};

static void put_node(struct answer_context *context, struct arena *arena, const struct value *values)
{
    context->page_bytes = as_count(&values[NODE_PAGE_BYTES]);
    recorder_put_take(context->recorder, "node",
                      json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "host", as_json_text(arena, &values[NODE_NAME]), "os",
                                as_json_text(arena, &values[NODE_OS]), "release",
                                as_json_text(arena, &values[NODE_RELEASE]), "arch",
                                as_json_text(arena, &values[NODE_ARCH]), "cpus", as_json_count(&values[NODE_CPUS], 1),
                                "memory_bytes", as_json_count(&values[NODE_PAGES], context->page_bytes)));
    context->node_known = true;
}

static json_t *node_sample(const struct answer_context *context, const struct value *values)
{
    uint64_t page = context->page_bytes;
    return json_pack(
        "{s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "load", as_number(&values[NODE_LOAD1]), "run_queue",
        as_json_count(&values[NODE_RUN_QUEUE], 1), "disk_wait", as_json_count(&values[NODE_DISK_WAIT], 1),
        "memory_free_bytes", as_json_count(&values[NODE_FREE_PAGES], page), "swap_free_bytes",
        as_json_count(&values[NODE_FREE_SWAP], page), "pages_in", as_json_count(&values[NODE_PAGES_IN], 1), "pages_out",
        as_json_count(&values[NODE_PAGES_OUT], 1), "disk_reads", as_json_count(&values[NODE_DISK_READS], 1),
        "disk_writes", as_json_count(&values[NODE_DISK_WRITES], 1), "packets",
        as_json_count(&values[NODE_FAST_PACKETS], 1));
}

/* The node's values, or NULL: then the sample goes on without them. */
static json_t *take_node(Omis_reply reply, struct answer_context *context, struct arena *arena)
{
    const char *text = result_of(reply, 1, NULL);
    const struct value *values;
    size_t count, wanted = NODE_SAMPLE_MEMBERS + (context->node_known ? 0 : NODE_STATIC_MEMBERS);
    if (!text || values_parse(arena, span_str(text), &values, &count, NULL) < 0 || count < wanted)
        return NULL;
    if (!context->node_known) {
        put_node(context, arena, values);
        values += NODE_STATIC_MEMBERS;
    }
    return node_sample(context, values);
}

static void put_method(struct answer_context *context, struct arena *arena, const struct value *values)
{
    struct job_model *model = &context->recorder->model;
    bool singly = as_count(&values[JOB_SINGLY]) != 0;
    const char *reason = text_of(arena, &values[JOB_REASON]);
    if (model->samples == 0 || singly != model->singly)
        recorder_put_take(context->recorder, "method",
                          json_pack("{s:b, s:o}", "singly", singly, "reason", text_json(reason)));
}

/* Adds to the record what is known of the command: argv, argv_cut if there is more of it, cwd. */
static void add_command(const struct answer_context *context, struct arena *arena, const struct value *command,
                        json_t *record)
{
    const struct value *args = &command[COMMAND_ARGS];
    if (!record || command[COMMAND_WHOLE].integer.negative || args->kind != VALUE_LIST || !args->list.count)
        return;
    char **words = arena_alloc(arena, (args->list.count + 1) * sizeof *words);
    if (!words)
        return;
    for (size_t i = 0; i < args->list.count; i++)
        words[i] = (char *)text_of(arena, &args->list.items[i]);
    words[args->list.count] = NULL;
    json_object_set_new(record, "argv", hide_args_json(words, context->recorder->hide));
    if (command[COMMAND_WHOLE].integer.bits == 0)
        json_object_set_new(record, "argv_cut", json_true());
    const char *directory = text_of(arena, &command[COMMAND_DIRECTORY]);
    if (*directory)
        json_object_set_new(record, "cwd", text_json(directory));
}

static void put_ended(struct answer_context *context, struct arena *arena, const struct value *row)
{
    struct recorder *recorder = context->recorder;
    pid_t pid = (pid_t)as_count(&row[END_PID]);
    const char *name = text_of(arena, &row[END_NAME]);
    bool told = !row[END_STATUS].integer.negative;
    int status = told ? (int)as_count(&row[END_STATUS]) : recorder_status(recorder, pid);
    json_t *record = json_pack(
        "{s:i, s:I, s:f, s:o, s:f, s:I, s:o, s:I, s:I}", "pid", pid, "ppid", (json_int_t)as_count(&row[END_PPID]),
        "start", recorder_seconds(recorder, as_count(&row[END_START])), "name", text_json(name), "end",
        recorder_seconds(recorder, as_count(&row[END_END])), "cpu_ns", (json_int_t)as_count(&row[END_CPU]), "status",
        status != JOB_STATUS_UNKNOWN ? json_integer(status) : json_null(), "threads",
        (json_int_t)as_count(&row[END_THREADS]), "peak_rss", (json_int_t)as_count(&row[END_PEAK]));
    if (status == JOB_STATUS_UNKNOWN)
        json_object_set_new(record, "why", as_json_text(arena, &row[END_WHY]));
    else
        json_object_set_new(record, "source", told ? as_json_text(arena, &row[END_SOURCE]) : json_string("wait"));
    add_command(context, arena, &row[END_COMMAND], record);
    recorder_put_take(recorder, "process_end", record);
    recorder_ended(recorder, pid, name, status);
}

/* A record when the process is new or has a new name or command. Names are compared as they are stored. */
static void put_alive(struct answer_context *context, struct arena *arena, const struct value *row)
{
    struct recorder *recorder = context->recorder;
    pid_t pid = (pid_t)as_count(&row[ALIVE_PID]);
    double start = recorder_seconds(recorder, as_count(&row[ALIVE_START]));
    json_t *name = text_json(text_of(arena, &row[ALIVE_NAME]));
    struct job_process *process;
    HASH_FIND_INT(recorder->model.alive, &pid, process);
    if (process && process->start - start < 0.05 && start - process->start < 0.05 && name &&
        strcmp(process->name, json_string_value(name)) == 0 && row[ALIVE_COMMAND].integer.negative) {
        json_decref(name);
        return;
    }
    json_t *record = json_pack("{s:i, s:I, s:f, s:o}", "pid", pid, "ppid", (json_int_t)as_count(&row[ALIVE_PPID]),
                               "start", start, "name", name);
    add_command(context, arena, &row[ALIVE_COMMAND], record);
    recorder_put_take(recorder, "process", record);
}

/* One row of the sample, or NULL when nothing changed since the last. */
static json_t *alive_row(const struct answer_context *context, struct arena *arena, const struct value *row)
{
    pid_t pid = (pid_t)as_count(&row[ALIVE_PID]);
    const char *state = text_of(arena, &row[ALIVE_STATE]);
    uint64_t rss = as_count(&row[ALIVE_RSS]), peak = as_count(&row[ALIVE_PEAK]), cpu_ns = as_count(&row[ALIVE_CPU]),
             threads = as_count(&row[ALIVE_THREADS]);
    struct job_process *process;
    HASH_FIND_INT(context->recorder->model.alive, &pid, process);
    if (process && process->state == *state && process->rss == rss && process->cpu_ns == cpu_ns &&
        process->threads == threads && process->peak_rss >= peak)
        return NULL;
    return json_pack("[i, s, I, I, I, I]", pid, state, (json_int_t)rss, (json_int_t)peak, (json_int_t)cpu_ns,
                     (json_int_t)threads);
}

static bool is_listed(const struct value *list, pid_t pid)
{
    for (size_t i = 0; i < list->list.count; i += ALIVE_MEMBERS)
        if (as_count(&list->list.items[i + ALIVE_PID]) == (uint64_t)pid)
            return true;
    return false;
}

/* Processes that ended while no monitor looked. */
static void end_missed(struct answer_context *context, const struct value *values)
{
    struct job_process *process, *next;
    HASH_ITER(hh, context->recorder->model.alive, process, next)
    if (!is_listed(&values[JOB_ALIVE_LIST], process->pid))
        recorder_put_take(context->recorder, "process_end",
                          json_pack("{s:i, s:i, s:f, s:s, s:f, s:I, s:n, s:I, s:I}", "pid", process->pid, "ppid",
                                    process->ppid, "start", process->start, "name", process->name, "end",
                                    process->sampled, "cpu_ns", (json_int_t)process->cpu_ns, "status", "threads",
                                    (json_int_t)process->peak_threads, "peak_rss", (json_int_t)process->peak_rss));
}

static void put_sample(struct answer_context *context, struct arena *arena, const struct value *values, json_t *node)
{
    const struct value *rows = values[JOB_ALIVE_LIST].list.items;
    size_t count = values[JOB_ALIVE_LIST].list.count / ALIVE_MEMBERS;
    uint64_t rss = 0, threads = 0, cpu_ns = as_count(&values[JOB_ENDED_CPU]);
    json_t *alive = json_array();
    for (size_t i = 0; i < count; i++) {
        const struct value *row = rows + i * ALIVE_MEMBERS;
        put_alive(context, arena, row);
        json_t *changed = alive_row(context, arena, row);
        if (changed)
            json_array_append_new(alive, changed);
        rss += as_count(&row[ALIVE_RSS]);
        threads += as_count(&row[ALIVE_THREADS]);
        cpu_ns += as_count(&row[ALIVE_CPU]);
    }
    recorder_put_take(context->recorder, "sample",
                      json_pack("{s:{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}, s:o*, s:o}", "tree", "processes",
                                (json_int_t)count, "threads", (json_int_t)threads, "rss", (json_int_t)rss, "cpu_ns",
                                (json_int_t)cpu_ns, "started", (json_int_t)as_count(&values[JOB_STARTED]), "ended",
                                (json_int_t)as_count(&values[JOB_ENDED]), "peak_processes",
                                (json_int_t)as_count(&values[JOB_PEAK_PROCESSES]), "peak_threads",
                                (json_int_t)as_count(&values[JOB_PEAK_THREADS]), "node", node, "alive", alive));
}

/* What was taken for a process of the job and is none: one of the agent's own that had not yet named itself. */
static void withdraw(struct answer_context *context, const struct value *values)
{
    struct job_process *process, *next;
    HASH_ITER(hh, context->recorder->model.alive, process, next)
    if (!is_listed(&values[JOB_ALIVE_LIST], process->pid))
        recorder_put_take(context->recorder, "withdrawn",
                          json_pack("{s:i, s:I, s:I}", "pid", process->pid, "peak_processes",
                                    (json_int_t)as_count(&values[JOB_PEAK_PROCESSES]), "peak_threads",
                                    (json_int_t)as_count(&values[JOB_PEAK_THREADS])));
}

static bool is_list_of(const struct value *value, size_t members)
{
    return value->kind == VALUE_LIST && value->list.count % members == 0;
}

int answer_sample(Omis_reply reply, struct answer_context *context, struct err *err)
{
    _cleanup_(arena_done) struct arena arena = ARENA_INIT;
    const struct value *values;
    size_t count;
    const char *text = result_of(reply, 2, err);
    if (!text)
        return -EBADMSG;
    int code = values_parse(&arena, span_str(text), &values, &count, err);
    if (code < 0)
        return code;
    if (count < JOB_MEMBERS || !is_list_of(&values[JOB_ENDED_LIST], END_MEMBERS) ||
        !is_list_of(&values[JOB_ALIVE_LIST], ALIVE_MEMBERS))
        return err_set(err, -EBADMSG,
                       "the monitor's answer about the job has an unknown shape: is it of this version?");
    json_t *node = take_node(reply, context, &arena);
    put_method(context, &arena, values);
    const struct value *rows = values[JOB_ENDED_LIST].list.items;
    for (size_t i = 0; i + END_MEMBERS <= values[JOB_ENDED_LIST].list.count; i += END_MEMBERS)
        put_ended(context, &arena, rows + i);
    if (context->fresh)
        end_missed(context, values);
    put_sample(context, &arena, values, node);
    context->coming = count > JOB_COMING ? as_count(&values[JOB_COMING]) : 0;
    context->unseen = count > JOB_UNSEEN ? as_count(&values[JOB_UNSEEN]) : 0;
    context->unclocked_ns = count > JOB_UNCLOCKED ? as_count(&values[JOB_UNCLOCKED]) : 0;
    context->lost = as_count(&values[JOB_FORGOTTEN]) + as_count(&values[JOB_LOST]);
    if (count > JOB_COMING && context->coming == 0 && context->lost == 0)
        withdraw(context, values);
    context->cursor = as_count(&values[JOB_CURSOR]);
    return 0;
}
