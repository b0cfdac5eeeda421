/* SPDX-License-Identifier: Apache-2.0 */
#include "job/watch/answer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "base/system/proc_file.h"
#include "client/client.h"
#include "client/decode.h"
#include "job/watch/untraced.h"
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

/* What is unknown, -1, stays so. */
static int64_t bytes_of(int64_t pages, uint64_t page_bytes)
{
    return pages >= 0 ? pages * (int64_t)page_bytes : -1;
}

/* Of this node, which is the monitor's. What the services say is free does not have caches in it. -1: unknown. */
static int64_t memory_available(void)
{
    _cleanup_(freep) char *text = NULL;
    size_t len;
    uint64_t kilobytes = file_read("/proc/meminfo", &text, &len) == 0 ? proc_field(text, "MemAvailable") : 0;
    return kilobytes ? (int64_t)kilobytes * 1024 : -1;
}

static void put_node(struct answer_context *context, const struct node_answer *node)
{
    context->page_bytes = node->mem_pagesize > 0 ? (uint64_t)node->mem_pagesize : 0;
    recorder_put(context->recorder, RECORD(node, .host = node->name, .os = node->os_name, .release = node->os_release,
                                           .arch = node->cpu_arch, .cpus = node->cpu_num,
                                           .memory_bytes = bytes_of(node->mem_numpages, context->page_bytes)));
    context->node_known = true;
}

/* The node's values; false: the sample goes on without them. */
static bool take_node(struct omis_reader *reader, struct answer_context *context, struct system_fields *ret_system)
{
    struct decoder decoder;
    struct node_answer node;
    decoder_init(&decoder, NODE_INFO_RESULT, context->node_known ? ANSWER_NODE_SAMPLE : ANSWER_NODE_STATIC,
                 context->node_known ? node_sample_fields : node_fields);
    const struct omis_value *values = values_of(reader, 1, decoder.members, NULL);
    if (!values)
        return false;
    decode(&decoder, values, 0, &node);
    if (!context->node_known)
        put_node(context, &node);
    *ret_system = (struct system_fields){.load = node.cpu_rql1,
                                         .run_queue = node.cpu_rql,
                                         .disk_wait = node.cpu_dwj,
                                         .memory_free_bytes = bytes_of(node.mem_freepages, context->page_bytes),
                                         .memory_available_bytes = memory_available(),
                                         .swap_free_bytes = bytes_of(node.mem_freeswap, context->page_bytes),
                                         .pages_in = node.vm_pagein,
                                         .pages_out = node.vm_pageout,
                                         .disk_reads = node.dsk_rawrd,
                                         .disk_writes = node.dsk_rawwr,
                                         .packets = node.net_fpkt};
    return true;
}

static void put_method(struct answer_context *context, const struct job_answer *job)
{
    struct job_model *model = &context->recorder->model;
    bool singly = job->singly != 0;
    if (model->samples == 0 || singly != model->singly)
        recorder_put(context->recorder, RECORD(method, .singly = singly, .reason = job->reason));
}

/* The command, as far as it is known. `argv` is the caller's to release. */
static struct command_fields command_of(const struct answer_context *context, const struct process_answer *process)
{
    size_t count = omis_count(process->args);
    _cleanup_(freep) char **words = process->whole >= 0 && count ? calloc(count + 1, sizeof *words) : NULL;
    if (!words)
        return (struct command_fields){0};
    for (size_t i = 0; i < count; i++)
        words[i] = (char *)omis_text(omis_item(process->args, i), NULL);
    return (struct command_fields){.argv = hide_args_json(words, context->recorder->hide),
                                   .argv_cut = !(process->whole & COMMAND_IS_WHOLE),
                                   .cwd = *process->directory ? process->directory : NULL};
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
    bool unknown = status == JOB_STATUS_UNKNOWN;
    struct process_end_record record = {.process = {.pid = ended->pid,
                                                    .ppid = ended->ppid,
                                                    .start = recorder_seconds(recorder, ended->start_ns),
                                                    .name = ended->name,
                                                    .command = command_of(context, ended)},
                                        .end = recorder_seconds(recorder, ended->end_ns),
                                        .cpu_ns = ended->cpu_ns,
                                        .threads = ended->threads,
                                        .peak_rss = ended->peak_rss,
                                        .status = status,
                                        .source = unknown ? NULL
                                                  : told  ? ended->source
                                                          : job_status_source_name(JOB_STATUS_BY_WAIT),
                                        .why = unknown ? ended->why : NULL};
    note_untraced(recorder, ended);
    recorder_put(recorder, RECORD_process_end, &record);
    json_decref(record.process.command.argv);
    recorder_ended(recorder, ended->pid, ended->name, status);
}

static struct job_process *known_process(const struct answer_context *context, pid_t pid)
{
    struct job_process *process;
    HASH_FIND_INT(context->recorder->model.alive, &pid, process);
    return process;
}

/* A name as it is stored. */
static bool is_name(const char *stored, const char *name)
{
    _cleanup_(buf_done) struct buf clean = BUF_INIT;
    text_clean(&clean, name);
    return strcmp(stored, clean.data ? clean.data : "") == 0;
}

/* A record when the process is new or has a new name or command. */
static void put_alive(struct answer_context *context, const struct process_answer *alive)
{
    struct recorder *recorder = context->recorder;
    double start = recorder_seconds(recorder, alive->start_ns);
    const struct job_process *process = known_process(context, alive->pid);
    if (process && process->start - start < 0.05 && start - process->start < 0.05 &&
        is_name(process->name, alive->name) && alive->whole < 0)
        return;
    struct command_fields command = command_of(context, alive);
    recorder_put(recorder, RECORD(process, .pid = alive->pid, .ppid = alive->ppid, .start = start, .name = alive->name,
                                  .command = command));
    json_decref(command.argv);
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
        recorder_put(
            context->recorder,
            RECORD(
                process_end,
                .process = {.pid = process->pid, .ppid = process->ppid, .start = process->start, .name = process->name},
                .end = process->sampled, .cpu_ns = process->cpu_ns, .status = JOB_STATUS_UNKNOWN,
                .threads = process->peak_threads, .peak_rss = process->peak_rss));
}

static void put_sample(struct answer_context *context, const struct job_answer *job, const struct system_fields *system)
{
    struct decoder decoder;
    decoder_init(&decoder, JOB_ALIVE, 0, alive_fields);
    size_t count = decoder_rows(&decoder, job->alive_list);
    struct sample_record record = {.tree = {.processes = count,
                                            .cpu_ns = job->ended_cpu_ns,
                                            .started = job->started,
                                            .ended = job->ended,
                                            .peak_processes = job->peak_processes,
                                            .peak_threads = job->peak_threads},
                                   .system = system,
                                   .alive = json_array()};
    for (size_t i = 0; i < count; i++) {
        struct process_answer alive;
        decode(&decoder, job->alive_list, i, &alive);
        put_alive(context, &alive);
        json_t *changed = alive_row(context, &alive);
        if (changed)
            json_array_append_new(record.alive, changed);
        record.tree.rss += alive.rss;
        record.tree.threads += alive.threads;
        record.tree.cpu_ns += alive.cpu_ns;
    }
    recorder_put(context->recorder, RECORD_sample, &record);
    json_decref(record.alive);
}

/* What was taken for a process of the job and is none: one of the agent's own that had not yet named itself. */
static void withdraw(struct answer_context *context, const struct job_answer *job)
{
    struct job_process *process, *next;
    HASH_ITER(hh, context->recorder->model.alive, process, next)
    if (!is_listed(job, process->pid))
        recorder_put(context->recorder, RECORD(withdrawn, .pid = process->pid, .peak_processes = job->peak_processes,
                                               .peak_threads = job->peak_threads));
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
    struct system_fields system;
    bool has_system = take_node(reader, context, &system);
    put_method(context, &job);
    for (size_t i = 0; i < decoder_rows(&ended, job.ended_list); i++) {
        struct process_answer process;
        decode(&ended, job.ended_list, i, &process);
        put_ended(context, &process);
    }
    if (context->fresh)
        end_missed(context, &job);
    put_sample(context, &job, has_system ? &system : NULL);
    context->coming = job.coming > 0 ? (uint64_t)job.coming : 0;
    context->unseen = job.unseen;
    context->unclocked_ns = job.unclocked_ns;
    context->lost = job.forgotten + job.lost;
    if (job.coming == 0 && context->lost == 0)
        withdraw(context, &job);
    context->cursor = job.cursor;
    return 0;
}
