/* SPDX-License-Identifier: Apache-2.0 */
#include "job/answer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "client/client.h"
#include "job/untraced.h"
#include "jobdir/text/text.h"

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
enum { COMMAND_IS_WHOLE = 1, COMMAND_FROM_OUTSIDE = 2 }; /* bits of COMMAND_WHOLE */
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

/* The values of the first result of the action `index` (from 1), with err when there are less than `wanted`. */
static const struct omis_value *values_of(struct omis_reader *reader, size_t index, size_t wanted, struct err *err)
{
    omis_reader_find(reader, index);
    const struct omis_value *values = omis_reader_values(reader);
    if (omis_reader_error(reader))
        err_set(err, -EIO, "%s", omis_reader_error(reader));
    else if (omis_count(values) < wanted)
        err_set(err, -EBADMSG, "the monitor's answer to action %zu has %zu values, not %zu: is it of this version?",
                index, omis_count(values), wanted);
    else
        return values;
    return NULL;
}

int answer_token(Omis_reply reply, char *ret_token, size_t size, struct err *err)
{
    _cleanup_(omis_reader_freep) struct omis_reader *reader = omis_reader_new(reply);
    const struct omis_value *values = values_of(reader, 2, 1, err);
    if (!values)
        return -EBADMSG;
    if ((size_t)snprintf(ret_token, size, "%s", omis_text(omis_item(values, 0), NULL)) >= size)
        return err_set(err, -EBADMSG, "the monitor's token for the job is too long");
    return 0;
}

static uint64_t count_at(const struct omis_value *list, size_t index)
{
    return omis_unsigned(omis_item(list, index));
}

static const char *text_at(const struct omis_value *list, size_t index)
{
    return omis_text(omis_item(list, index), NULL);
}

/* What is not known is -1. */
static bool is_known(const struct omis_value *list, size_t index)
{
    return omis_kind(omis_item(list, index)) == OMIS_KIND_INTEGER && omis_integer(omis_item(list, index)) >= 0;
}

static json_t *json_count_at(const struct omis_value *list, size_t index, uint64_t unit)
{
    uint64_t count = is_known(list, index) ? count_at(list, index) * unit : 0;
    return is_known(list, index) ? json_integer((json_int_t)count) : json_null();
}

static json_t *json_text_at(const struct omis_value *list, size_t index)
{
    return text_json(text_at(list, index));
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

static void put_node(struct answer_context *context, const struct omis_value *values)
{
    context->page_bytes = count_at(values, NODE_PAGE_BYTES);
    recorder_put_take(context->recorder, "node",
                      json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "host", json_text_at(values, NODE_NAME), "os",
                                json_text_at(values, NODE_OS), "release", json_text_at(values, NODE_RELEASE), "arch",
                                json_text_at(values, NODE_ARCH), "cpus", json_count_at(values, NODE_CPUS, 1),
                                "memory_bytes", json_count_at(values, NODE_PAGES, context->page_bytes)));
    context->node_known = true;
}

static json_t *node_sample(const struct answer_context *context, const struct omis_value *values, size_t at)
{
    uint64_t page = context->page_bytes;
    return json_pack(
        "{s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "load", omis_floating(omis_item(values, at + NODE_LOAD1)),
        "run_queue", json_count_at(values, at + NODE_RUN_QUEUE, 1), "disk_wait",
        json_count_at(values, at + NODE_DISK_WAIT, 1), "memory_free_bytes",
        json_count_at(values, at + NODE_FREE_PAGES, page), "swap_free_bytes",
        json_count_at(values, at + NODE_FREE_SWAP, page), "pages_in", json_count_at(values, at + NODE_PAGES_IN, 1),
        "pages_out", json_count_at(values, at + NODE_PAGES_OUT, 1), "disk_reads",
        json_count_at(values, at + NODE_DISK_READS, 1), "disk_writes", json_count_at(values, at + NODE_DISK_WRITES, 1),
        "packets", json_count_at(values, at + NODE_FAST_PACKETS, 1));
}

/* The node's values, or NULL: then the sample goes on without them. */
static json_t *take_node(struct omis_reader *reader, struct answer_context *context)
{
    size_t at = context->node_known ? 0 : NODE_STATIC_MEMBERS;
    const struct omis_value *values = values_of(reader, 1, at + NODE_SAMPLE_MEMBERS, NULL);
    if (!values)
        return NULL;
    if (!context->node_known)
        put_node(context, values);
    return node_sample(context, values, at);
}

static void put_method(struct answer_context *context, const struct omis_value *values)
{
    struct job_model *model = &context->recorder->model;
    bool singly = count_at(values, JOB_SINGLY) != 0;
    const char *reason = text_at(values, JOB_REASON);
    if (model->samples == 0 || singly != model->singly)
        recorder_put_take(context->recorder, "method",
                          json_pack("{s:b, s:o}", "singly", singly, "reason", text_json(reason)));
}

/* Adds to the record what is known of the command that begins at `at`: argv, argv_cut if there is more of it, cwd. */
static void add_command(const struct answer_context *context, const struct omis_value *rows, size_t at, json_t *record)
{
    const struct omis_value *args = omis_item(rows, at + COMMAND_ARGS);
    if (!record || !is_known(rows, at + COMMAND_WHOLE) || !omis_count(args))
        return;
    _cleanup_(freep) char **words = calloc(omis_count(args) + 1, sizeof *words);
    if (!words)
        return;
    for (size_t i = 0; i < omis_count(args); i++)
        words[i] = (char *)text_at(args, i);
    json_object_set_new(record, "argv", hide_args_json(words, context->recorder->hide));
    if (!(count_at(rows, at + COMMAND_WHOLE) & COMMAND_IS_WHOLE))
        json_object_set_new(record, "argv_cut", json_true());
    if (*text_at(rows, at + COMMAND_DIRECTORY))
        json_object_set_new(record, "cwd", json_text_at(rows, at + COMMAND_DIRECTORY));
}

/* It ended, and the agent was not in it, or found no way to say so. */
static void note_untraced(struct recorder *recorder, const struct omis_value *rows, size_t at)
{
    const struct omis_value *args = omis_item(rows, at + END_COMMAND + COMMAND_ARGS);
    bool known = is_known(rows, at + END_COMMAND + COMMAND_WHOLE) && omis_count(args);
    if (known && !(count_at(rows, at + END_COMMAND + COMMAND_WHOLE) & COMMAND_FROM_OUTSIDE))
        return;
    untraced_add(&recorder->untraced, text_at(rows, at + END_NAME), known ? text_at(args, 0) : NULL,
                 known ? text_at(rows, at + END_COMMAND + COMMAND_DIRECTORY) : NULL);
}

static void put_ended(struct answer_context *context, const struct omis_value *rows, size_t at)
{
    struct recorder *recorder = context->recorder;
    pid_t pid = (pid_t)count_at(rows, at + END_PID);
    const char *name = text_at(rows, at + END_NAME);
    bool told = is_known(rows, at + END_STATUS);
    int status = told ? (int)count_at(rows, at + END_STATUS) : recorder_status(recorder, pid);
    json_t *record = json_pack(
        "{s:i, s:I, s:f, s:o, s:f, s:I, s:o, s:I, s:I}", "pid", pid, "ppid", (json_int_t)count_at(rows, at + END_PPID),
        "start", recorder_seconds(recorder, count_at(rows, at + END_START)), "name", text_json(name), "end",
        recorder_seconds(recorder, count_at(rows, at + END_END)), "cpu_ns", (json_int_t)count_at(rows, at + END_CPU),
        "status", status != JOB_STATUS_UNKNOWN ? json_integer(status) : json_null(), "threads",
        (json_int_t)count_at(rows, at + END_THREADS), "peak_rss", (json_int_t)count_at(rows, at + END_PEAK));
    if (status == JOB_STATUS_UNKNOWN)
        json_object_set_new(record, "why", json_text_at(rows, at + END_WHY));
    else
        json_object_set_new(record, "source", told ? json_text_at(rows, at + END_SOURCE) : json_string("wait"));
    add_command(context, rows, at + END_COMMAND, record);
    note_untraced(recorder, rows, at);
    recorder_put_take(recorder, "process_end", record);
    recorder_ended(recorder, pid, name, status);
}

/* A record when the process is new or has a new name or command. Names are compared as they are stored. */
static void put_alive(struct answer_context *context, const struct omis_value *rows, size_t at)
{
    struct recorder *recorder = context->recorder;
    pid_t pid = (pid_t)count_at(rows, at + ALIVE_PID);
    double start = recorder_seconds(recorder, count_at(rows, at + ALIVE_START));
    json_t *name = text_json(text_at(rows, at + ALIVE_NAME));
    struct job_process *process;
    HASH_FIND_INT(recorder->model.alive, &pid, process);
    if (process && process->start - start < 0.05 && start - process->start < 0.05 && name &&
        strcmp(process->name, json_string_value(name)) == 0 && !is_known(rows, at + ALIVE_COMMAND)) {
        json_decref(name);
        return;
    }
    json_t *record = json_pack("{s:i, s:I, s:f, s:o}", "pid", pid, "ppid", (json_int_t)count_at(rows, at + ALIVE_PPID),
                               "start", start, "name", name);
    add_command(context, rows, at + ALIVE_COMMAND, record);
    recorder_put_take(recorder, "process", record);
}

/* One row of the sample, or NULL when nothing changed since the last. */
static json_t *alive_row(const struct answer_context *context, const struct omis_value *rows, size_t at)
{
    pid_t pid = (pid_t)count_at(rows, at + ALIVE_PID);
    const char *state = text_at(rows, at + ALIVE_STATE);
    uint64_t rss = count_at(rows, at + ALIVE_RSS), peak = count_at(rows, at + ALIVE_PEAK),
             cpu_ns = count_at(rows, at + ALIVE_CPU), threads = count_at(rows, at + ALIVE_THREADS);
    struct job_process *process;
    HASH_FIND_INT(context->recorder->model.alive, &pid, process);
    if (process && process->state == *state && process->rss == rss && process->cpu_ns == cpu_ns &&
        process->threads == threads && process->peak_rss >= peak)
        return NULL;
    return json_pack("[i, s, I, I, I, I]", pid, state, (json_int_t)rss, (json_int_t)peak, (json_int_t)cpu_ns,
                     (json_int_t)threads);
}

static bool is_listed(const struct omis_value *list, pid_t pid)
{
    for (size_t i = 0; i < omis_count(list); i += ALIVE_MEMBERS)
        if (count_at(list, i + ALIVE_PID) == (uint64_t)pid)
            return true;
    return false;
}

/* Processes that ended while no monitor looked. */
static void end_missed(struct answer_context *context, const struct omis_value *values)
{
    struct job_process *process, *next;
    HASH_ITER(hh, context->recorder->model.alive, process, next)
    if (!is_listed(omis_item(values, JOB_ALIVE_LIST), process->pid))
        recorder_put_take(context->recorder, "process_end",
                          json_pack("{s:i, s:i, s:f, s:s, s:f, s:I, s:n, s:I, s:I}", "pid", process->pid, "ppid",
                                    process->ppid, "start", process->start, "name", process->name, "end",
                                    process->sampled, "cpu_ns", (json_int_t)process->cpu_ns, "status", "threads",
                                    (json_int_t)process->peak_threads, "peak_rss", (json_int_t)process->peak_rss));
}

static void put_sample(struct answer_context *context, const struct omis_value *values, json_t *node)
{
    const struct omis_value *rows = omis_item(values, JOB_ALIVE_LIST);
    size_t count = omis_count(rows) / ALIVE_MEMBERS;
    uint64_t rss = 0, threads = 0, cpu_ns = count_at(values, JOB_ENDED_CPU);
    json_t *alive = json_array();
    for (size_t i = 0; i < count; i++) {
        size_t at = i * ALIVE_MEMBERS;
        put_alive(context, rows, at);
        json_t *changed = alive_row(context, rows, at);
        if (changed)
            json_array_append_new(alive, changed);
        rss += count_at(rows, at + ALIVE_RSS);
        threads += count_at(rows, at + ALIVE_THREADS);
        cpu_ns += count_at(rows, at + ALIVE_CPU);
    }
    recorder_put_take(context->recorder, "sample",
                      json_pack("{s:{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}, s:o*, s:o}", "tree", "processes",
                                (json_int_t)count, "threads", (json_int_t)threads, "rss", (json_int_t)rss, "cpu_ns",
                                (json_int_t)cpu_ns, "started", (json_int_t)count_at(values, JOB_STARTED), "ended",
                                (json_int_t)count_at(values, JOB_ENDED), "peak_processes",
                                (json_int_t)count_at(values, JOB_PEAK_PROCESSES), "peak_threads",
                                (json_int_t)count_at(values, JOB_PEAK_THREADS), "system", node, "alive", alive));
}

/* What was taken for a process of the job and is none: one of the agent's own that had not yet named itself. */
static void withdraw(struct answer_context *context, const struct omis_value *values)
{
    struct job_process *process, *next;
    HASH_ITER(hh, context->recorder->model.alive, process, next)
    if (!is_listed(omis_item(values, JOB_ALIVE_LIST), process->pid))
        recorder_put_take(context->recorder, "withdrawn",
                          json_pack("{s:i, s:I, s:I}", "pid", process->pid, "peak_processes",
                                    (json_int_t)count_at(values, JOB_PEAK_PROCESSES), "peak_threads",
                                    (json_int_t)count_at(values, JOB_PEAK_THREADS)));
}

static bool is_list_of(const struct omis_value *value, size_t members)
{
    return omis_kind(value) == OMIS_KIND_LIST && omis_count(value) % members == 0;
}

int answer_sample(Omis_reply reply, struct answer_context *context, struct err *err)
{
    _cleanup_(omis_reader_freep) struct omis_reader *reader = omis_reader_new(reply);
    const struct omis_value *values = values_of(reader, 2, JOB_MEMBERS, err);
    if (!values)
        return -EBADMSG;
    const struct omis_value *ended = omis_item(values, JOB_ENDED_LIST);
    if (!is_list_of(ended, END_MEMBERS) || !is_list_of(omis_item(values, JOB_ALIVE_LIST), ALIVE_MEMBERS))
        return err_set(err, -EBADMSG,
                       "the monitor's answer about the job has an unknown shape: is it of this version?");
    json_t *node = take_node(reader, context);
    put_method(context, values);
    for (size_t at = 0; at < omis_count(ended); at += END_MEMBERS)
        put_ended(context, ended, at);
    if (context->fresh)
        end_missed(context, values);
    put_sample(context, values, node);
    context->coming = count_at(values, JOB_COMING);
    context->unseen = count_at(values, JOB_UNSEEN);
    context->unclocked_ns = count_at(values, JOB_UNCLOCKED);
    context->lost = count_at(values, JOB_FORGOTTEN) + count_at(values, JOB_LOST);
    if (omis_count(values) > JOB_COMING && context->coming == 0 && context->lost == 0)
        withdraw(context, values);
    context->cursor = count_at(values, JOB_CURSOR);
    return 0;
}
