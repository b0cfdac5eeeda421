/* SPDX-License-Identifier: Apache-2.0 */
#include "job/answer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "client/client.h"
#include "client/decode.h"
#include "job/untraced.h"
#include "jobdir/text/text.h"
#include "lang/results.h"

/* What is needed of job_get_info's answer, and of its two lists: doc/reference/services.md. */
struct job_answer {
    uint64_t cursor, singly, lost, started, ended, ended_cpu_ns, peak_processes, peak_threads, forgotten, unseen,
        unclocked_ns;
    int64_t coming; /* -1: the monitor is of an older version */
    const char *reason;
    const struct omis_value *ended_list, *alive_list;
};
#define JOB(member) DECODE(struct job_answer, member)
static const struct decode_field job_fields[] = {
    JOB(cursor),         JOB(singly),       JOB(lost),       JOB(started), JOB(ended),        JOB(ended_cpu_ns),
    JOB(peak_processes), JOB(peak_threads), JOB(forgotten),  JOB(unseen),  JOB(unclocked_ns), JOB(coming),
    JOB(reason),         JOB(ended_list),   JOB(alive_list), {0}};

/* A process of either list. */
struct process_answer {
    uint64_t start_ns, end_ns, cpu_ns, threads, rss, peak_rss;
    int64_t status, whole; /* whole: -1, or the bits of COMMAND_... */
    int32_t pid, ppid;
    const char *name, *state, *source, *why, *directory;
    const struct omis_value *args;
};
enum { COMMAND_IS_WHOLE = 1, COMMAND_FROM_OUTSIDE = 2 };
#define PROCESS(member) DECODE(struct process_answer, member)
static const struct decode_field ended_fields[] = {
    PROCESS(pid),    PROCESS(ppid),  PROCESS(start_ns),  PROCESS(end_ns),   PROCESS(cpu_ns),
    PROCESS(status), PROCESS(name),  PROCESS(threads),   PROCESS(peak_rss), PROCESS(source),
    PROCESS(why),    PROCESS(whole), PROCESS(directory), PROCESS(args),     {0}};
static const struct decode_field alive_fields[] = {PROCESS(pid),
                                                   PROCESS(ppid),
                                                   PROCESS(start_ns),
                                                   PROCESS(cpu_ns),
                                                   PROCESS(rss),
                                                   PROCESS(peak_rss),
                                                   PROCESS(threads),
                                                   PROCESS(state),
                                                   PROCESS(name),
                                                   PROCESS(whole),
                                                   PROCESS(directory),
                                                   PROCESS(args),
                                                   {0}};

/* -1: not known. */
struct node_answer {
    const char *name, *os_name, *os_release, *cpu_arch;
    int64_t cpu_num, mem_numpages, mem_pagesize;
    double cpu_rql1;
    int64_t cpu_rql, cpu_dwj, mem_freepages, mem_freeswap, vm_pagein, vm_pageout, dsk_rawrd, dsk_rawwr, net_fpkt;
};
#define NODE(member) DECODE(struct node_answer, member)
#define NODE_SAMPLE \
    NODE(cpu_rql1), NODE(cpu_rql), NODE(cpu_dwj), NODE(mem_freepages), NODE(mem_freeswap), NODE(vm_pagein), \
        NODE(vm_pageout), NODE(dsk_rawrd), NODE(dsk_rawwr), NODE(net_fpkt)
static const struct decode_field node_fields[] = {NODE(name),         NODE(os_name), NODE(os_release),
                                                  NODE(cpu_arch),     NODE(cpu_num), NODE(mem_numpages),
                                                  NODE(mem_pagesize), NODE_SAMPLE,   {0}};
static const struct decode_field node_sample_fields[] = {NODE_SAMPLE, {0}};

/* The values of the first result of action `index` (from 1). With err if there are less than `wanted`. */
static const struct omis_value *values_of(struct omis_reader *reader, size_t index, size_t wanted, struct err *err)
{
    omis_reader_find(reader, index);
    const struct omis_value *values = omis_reader_values(reader);
    if (omis_reader_error(reader))
        err_set(err, -EIO, "%s", omis_reader_error(reader));
    else if (omis_count(values) < wanted)
        err_set(err, -EBADMSG, "the monitor's answer to action %zu has %zu values, not %zu: is it of another version?",
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

static json_t *json_count(int64_t count, int64_t unit)
{
    return count >= 0 ? json_integer(count * unit) : json_null();
}

static void put_node(struct answer_context *context, const struct node_answer *node)
{
    context->page_bytes = node->mem_pagesize > 0 ? (uint64_t)node->mem_pagesize : 0;
    recorder_put_take(context->recorder, "node",
                      json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "host", text_json(node->name), "os",
                                text_json(node->os_name), "release", text_json(node->os_release), "arch",
                                text_json(node->cpu_arch), "cpus", json_count(node->cpu_num, 1), "memory_bytes",
                                json_count(node->mem_numpages, (int64_t)context->page_bytes)));
    context->node_known = true;
}

/* The node's values, or NULL: then the sample goes on without them. */
static json_t *take_node(struct omis_reader *reader, struct answer_context *context)
{
    struct decoder decoder;
    struct node_answer node;
    decoder_init(&decoder, NODE_INFO_RESULT, context->node_known ? ANSWER_NODE_SAMPLE : ANSWER_NODE_STATIC,
                 context->node_known ? node_sample_fields : node_fields);
    const struct omis_value *values = values_of(reader, 1, decoder.members, NULL);
    if (!values)
        return NULL;
    decode(&decoder, values, 0, &node);
    if (!context->node_known)
        put_node(context, &node);
    int64_t page = (int64_t)context->page_bytes;
    return json_pack("{s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "load", node.cpu_rql1, "run_queue",
                     json_count(node.cpu_rql, 1), "disk_wait", json_count(node.cpu_dwj, 1), "memory_free_bytes",
                     json_count(node.mem_freepages, page), "swap_free_bytes", json_count(node.mem_freeswap, page),
                     "pages_in", json_count(node.vm_pagein, 1), "pages_out", json_count(node.vm_pageout, 1),
                     "disk_reads", json_count(node.dsk_rawrd, 1), "disk_writes", json_count(node.dsk_rawwr, 1),
                     "packets", json_count(node.net_fpkt, 1));
}

static void put_method(struct answer_context *context, const struct job_answer *job)
{
    struct job_model *model = &context->recorder->model;
    bool singly = job->singly != 0;
    if (model->samples == 0 || singly != model->singly)
        recorder_put_take(context->recorder, "method",
                          json_pack("{s:b, s:o}", "singly", singly, "reason", text_json(job->reason)));
}

/* Adds to the record what is known of the command: argv, argv_cut if there is more of it, cwd. */
static void add_command(const struct answer_context *context, const struct process_answer *process, json_t *record)
{
    size_t count = omis_count(process->args);
    if (!record || process->whole < 0 || !count)
        return;
    _cleanup_(freep) char **words = calloc(count + 1, sizeof *words);
    if (!words)
        return;
    for (size_t i = 0; i < count; i++)
        words[i] = (char *)omis_text(omis_item(process->args, i), NULL);
    json_object_set_new(record, "argv", hide_args_json(words, context->recorder->hide));
    if (!(process->whole & COMMAND_IS_WHOLE))
        json_object_set_new(record, "argv_cut", json_true());
    if (*process->directory)
        json_object_set_new(record, "cwd", text_json(process->directory));
}

/* It ended, and the agent was not in it, or found no way to say so. */
static void note_untraced(struct recorder *recorder, const struct process_answer *process)
{
    bool known = process->whole >= 0 && omis_count(process->args);
    if (!known || (process->whole & COMMAND_FROM_OUTSIDE))
        untraced_add(&recorder->untraced, process->name, known ? omis_text(omis_item(process->args, 0), NULL) : NULL,
                     known ? process->directory : NULL);
}

static void put_ended(struct answer_context *context, const struct process_answer *ended)
{
    struct recorder *recorder = context->recorder;
    bool told = ended->status >= 0;
    int status = told ? (int)ended->status : recorder_status(recorder, ended->pid);
    json_t *record = json_pack("{s:i, s:i, s:f, s:o, s:f, s:I, s:o, s:I, s:I}", "pid", ended->pid, "ppid", ended->ppid,
                               "start", recorder_seconds(recorder, ended->start_ns), "name", text_json(ended->name),
                               "end", recorder_seconds(recorder, ended->end_ns), "cpu_ns", (json_int_t)ended->cpu_ns,
                               "status", status != JOB_STATUS_UNKNOWN ? json_integer(status) : json_null(), "threads",
                               (json_int_t)ended->threads, "peak_rss", (json_int_t)ended->peak_rss);
    if (status == JOB_STATUS_UNKNOWN)
        json_object_set_new(record, "why", text_json(ended->why));
    else
        json_object_set_new(record, "source", told ? text_json(ended->source) : json_string("wait"));
    add_command(context, ended, record);
    note_untraced(recorder, ended);
    recorder_put_take(recorder, "process_end", record);
    recorder_ended(recorder, ended->pid, ended->name, status);
}

static struct job_process *known_process(const struct answer_context *context, pid_t pid)
{
    struct job_process *process;
    HASH_FIND_INT(context->recorder->model.alive, &pid, process);
    return process;
}

/* A record when the process is new or has a new name or command. Names are compared as they are stored. */
static void put_alive(struct answer_context *context, const struct process_answer *alive)
{
    struct recorder *recorder = context->recorder;
    double start = recorder_seconds(recorder, alive->start_ns);
    json_t *name = text_json(alive->name);
    const struct job_process *process = known_process(context, alive->pid);
    if (process && process->start - start < 0.05 && start - process->start < 0.05 && name &&
        strcmp(process->name, json_string_value(name)) == 0 && alive->whole < 0) {
        json_decref(name);
        return;
    }
    json_t *record =
        json_pack("{s:i, s:i, s:f, s:o}", "pid", alive->pid, "ppid", alive->ppid, "start", start, "name", name);
    add_command(context, alive, record);
    recorder_put_take(recorder, "process", record);
}

/* One row of the sample, or NULL when nothing changed since the last. */
static json_t *alive_row(const struct answer_context *context, const struct process_answer *alive)
{
    const struct job_process *process = known_process(context, alive->pid);
    if (process && process->state == *alive->state && process->rss == alive->rss && process->cpu_ns == alive->cpu_ns &&
        process->threads == alive->threads && process->peak_rss >= alive->peak_rss)
        return NULL;
    return json_pack("[i, s, I, I, I, I]", alive->pid, alive->state, (json_int_t)alive->rss,
                     (json_int_t)alive->peak_rss, (json_int_t)alive->cpu_ns, (json_int_t)alive->threads);
}

static bool is_listed(const struct job_answer *job, pid_t pid)
{
    static const struct decode_field fields[] = {PROCESS(pid), {0}};
    struct process_answer alive = {0};
    struct decoder decoder;
    decoder_init(&decoder, JOB_ALIVE, 0, fields);
    for (size_t i = 0; i < decoder_rows(&decoder, job->alive_list) && alive.pid != pid; i++)
        decode(&decoder, job->alive_list, i, &alive);
    return alive.pid == pid;
}

/* Processes that ended while no monitor looked. */
static void end_missed(struct answer_context *context, const struct job_answer *job)
{
    struct job_process *process, *next;
    HASH_ITER(hh, context->recorder->model.alive, process, next)
    if (!is_listed(job, process->pid))
        recorder_put_take(context->recorder, "process_end",
                          json_pack("{s:i, s:i, s:f, s:s, s:f, s:I, s:n, s:I, s:I}", "pid", process->pid, "ppid",
                                    process->ppid, "start", process->start, "name", process->name, "end",
                                    process->sampled, "cpu_ns", (json_int_t)process->cpu_ns, "status", "threads",
                                    (json_int_t)process->peak_threads, "peak_rss", (json_int_t)process->peak_rss));
}

static void put_sample(struct answer_context *context, const struct job_answer *job, json_t *node)
{
    struct decoder decoder;
    decoder_init(&decoder, JOB_ALIVE, 0, alive_fields);
    size_t count = decoder_rows(&decoder, job->alive_list);
    uint64_t rss = 0, threads = 0, cpu_ns = job->ended_cpu_ns;
    json_t *rows = json_array();
    for (size_t i = 0; i < count; i++) {
        struct process_answer alive;
        decode(&decoder, job->alive_list, i, &alive);
        put_alive(context, &alive);
        json_t *changed = alive_row(context, &alive);
        if (changed)
            json_array_append_new(rows, changed);
        rss += alive.rss;
        threads += alive.threads;
        cpu_ns += alive.cpu_ns;
    }
    recorder_put_take(context->recorder, "sample",
                      json_pack("{s:{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}, s:o*, s:o}", "tree", "processes",
                                (json_int_t)count, "threads", (json_int_t)threads, "rss", (json_int_t)rss, "cpu_ns",
                                (json_int_t)cpu_ns, "started", (json_int_t)job->started, "ended",
                                (json_int_t)job->ended, "peak_processes", (json_int_t)job->peak_processes,
                                "peak_threads", (json_int_t)job->peak_threads, "system", node, "alive", rows));
}

/* What was taken for a process of the job and is none: one of the agent's own that had not yet named itself. */
static void withdraw(struct answer_context *context, const struct job_answer *job)
{
    struct job_process *process, *next;
    HASH_ITER(hh, context->recorder->model.alive, process, next)
    if (!is_listed(job, process->pid))
        recorder_put_take(context->recorder, "withdrawn",
                          json_pack("{s:i, s:I, s:I}", "pid", process->pid, "peak_processes",
                                    (json_int_t)job->peak_processes, "peak_threads", (json_int_t)job->peak_threads));
}

static bool is_list_of(const struct decoder *decoder, const struct omis_value *value)
{
    return omis_kind(value) == OMIS_KIND_LIST && omis_count(value) % decoder->members == 0;
}

int answer_sample(Omis_reply reply, struct answer_context *context, struct err *err)
{
    _cleanup_(omis_reader_freep) struct omis_reader *reader = omis_reader_new(reply);
    struct decoder whole, ended, alive;
    struct job_answer job;
    decoder_init(&whole, JOB_INFO_RESULT, 0, job_fields);
    decoder_init(&ended, JOB_ENDED, 0, ended_fields);
    decoder_init(&alive, JOB_ALIVE, 0, alive_fields);
    const struct omis_value *values = values_of(reader, 2, 1, err);
    if (!values)
        return -EBADMSG;
    decode(&whole, values, 0, &job);
    if (!is_list_of(&ended, job.ended_list) || !is_list_of(&alive, job.alive_list))
        return err_set(err, -EBADMSG,
                       "the monitor's answer about the job has an unknown shape: is it of another version?");
    json_t *node = take_node(reader, context);
    put_method(context, &job);
    for (size_t i = 0; i < decoder_rows(&ended, job.ended_list); i++) {
        struct process_answer process;
        decode(&ended, job.ended_list, i, &process);
        put_ended(context, &process);
    }
    if (context->fresh)
        end_missed(context, &job);
    put_sample(context, &job, node);
    context->coming = job.coming > 0 ? (uint64_t)job.coming : 0;
    context->unseen = job.unseen;
    context->unclocked_ns = job.unclocked_ns;
    context->lost = job.forgotten + job.lost;
    if (job.coming == 0 && context->lost == 0)
        withdraw(context, &job);
    context->cursor = job.cursor;
    return 0;
}
