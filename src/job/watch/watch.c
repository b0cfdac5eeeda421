/* SPDX-License-Identifier: Apache-2.0 */
#include "job/watch/watch.h"

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "base/system/log.h"
#include "base/system/proc_file.h"
#include "client/client.h"
#include "client/decode.h"
#include "job/watch/functions.h"
#include "jobdir/text/text.h"
#include "lang/value.h"
#include "lang/results.h"
#include "shm/waits.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Flags of node_get_info (specification 8.1.1). Bits 8 to 12: load, memory, paging, disks, network. Bits 0 to 3: what
 * the node is. Bit 14: no benchmarks, no look at every process, no waiting for rates: nothing of that is kept. */
enum { ANSWER_NODE_SAMPLE = 0x5f00, ANSWER_NODE_STATIC = 0x5f0f };

struct answer_context {
    struct recorder *recorder;
    struct bytes *bytes;
    uint64_t cursor;     /* of job_get_info, updated */
    uint64_t page_bytes; /* known after the first sample */
    bool node_known;
    bool fresh;                    /* the first answer of this monitor: processes that it does not know have ended */
    uint64_t coming;               /* processes, or their ends, not reported yet */
    uint64_t unseen, unclocked_ns; /* as in service/job/follow.h */
    uint64_t lost;                 /* process records lost so far, here or in the kernel */
};

/* Reads the monitor's replies and makes records from them. */

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

/* The token that job_create returned. 0, or -errno with the monitor's error. */
static int answer_token(Omis_reply reply, char *ret_token, size_t size, struct err *err)
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
                                        .bytes = bytes_take(context->bytes, ended->pid),
                                        .status = status,
                                        .source = unknown ? NULL
                                                  : told  ? ended->source
                                                          : job_status_source_name(JOB_STATUS_BY_WAIT),
                                        .why = unknown ? ended->why : NULL};
    note_untraced(recorder, ended);
    recorder_put(recorder, RECORD_process_end, &record);
    const char *program =
        ended->whole >= 0 && omis_count(ended->args) ? omis_text(omis_item(ended->args, 0), NULL) : NULL;
    recorder_ended(recorder, &record, program, ended->directory);
    json_decref(record.process.command.argv);
}

static struct job_process *known_process(const struct answer_context *context, pid_t pid)
{
    struct job_process *process;
    HASH_FIND_INT(context->recorder->model.alive, &pid, process);
    return process;
}

static bool lives(const void *ctx, pid_t pid)
{
    return known_process(ctx, pid);
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
                .bytes = bytes_take(context->bytes, process->pid), .threads = process->peak_threads,
                .peak_rss = process->peak_rss));
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

/* Reads the answer to watch.c's request, node_get_info and job_get_info. */
static int answer_sample(Omis_reply reply, struct answer_context *context, struct err *err)
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
    bytes_read(context->bytes, lives, context);
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

static const char DENIED[] = "scry_thread_denied_privilege([]) : print([$file])";
/* An answer that took longer leaves a gap. The connection stays: another monitor could not start beside this one. */
static const struct wait_policy *const run = &wait_policies[WAIT_RUN], *const arming = &wait_policies[WAIT_RUN_ARMING],
                                       *const silence = &wait_policies[WAIT_RUN_SILENCE];

static void on_reply(Omis_reply reply, void *param)
{
    struct watch *watch = param;
    log_debug("reply us=%llu", (unsigned long long)(clock_now_ns() - watch->asked_ns) / 1000);
    omis_reply_free(watch->reply);
    watch->reply = reply;
}

static void on_error(Omis_reply reply)
{
    omis_reply_free(reply); /* client_connected() notices a lost connection */
}

static void ignore(Omis_reply reply, void *param)
{
    (void)param;
    omis_reply_free(reply);
}

/* A monitor that is already running logs as much as scry run. */
static void tell_level(const struct run_options *options)
{
    char text[80];
    if (!options->log_level)
        return;
    snprintf(text, sizeof text, ":scry_monitor_set_log_level(\"%s\")", options->log_level);
    client_request(span_str(text), ignore, NULL, 0);
}

int watch_connect(struct watch *watch, struct err *err)
{
    client_set_timeout(run->limit_ms);
    Omis_status status = omis_init(NULL, NULL, on_error, NULL);
    watch->hangs[0] = 0;
    log_debug("monitor state=%s status=%s", status < OMIS_FIRST_ERROR ? "connected" : "unreachable",
              omis_status_name(status));
    if (status < OMIS_FIRST_ERROR) {
        tell_level(watch->options);
        return 0;
    }
    if (client_timed_out())
        snprintf(watch->hangs, sizeof watch->hangs, "%.255s", client_error());
    return err_set(err, -ENOTCONN, "%s", client_error());
}

static void send_request(struct watch *watch, const struct buf *text, enum watch_phase phase)
{
    watch->phase = phase;
    watch->asked_ns = clock_now_ns();
    log_debug("request text=%s", LOG_BYTES(text->data ? text->data : "", text->len));
    if (!text->failed)
        client_request(span_of(text->data, text->len), on_reply, watch, 0);
}

void watch_create(struct watch *watch)
{
    struct buf text = BUF_INIT;
    PUT_CALL(&text, "node_attach2", "");
    PUT_CALL(&text, "job_create", watch->dir, watch->root);
    if (watch->crash_stack)
        buf_printf(&text, " proc_attach3([],%d,\"\")", watch->root);
    send_request(watch, &text, WATCH_CREATING);
    buf_done(&text);
}

static void request_sample(struct watch *watch)
{
    struct buf text = BUF_INIT;
    buf_printf(&text, ":node_get_info([],%d) job_get_info([%s],%llu)",
               watch->node_known ? ANSWER_NODE_SAMPLE : ANSWER_NODE_STATIC, watch->token,
               (unsigned long long)watch->cursor);
    send_request(watch, &text, WATCH_ASKING);
    buf_done(&text);
}

static void open_gap(struct watch *watch, const char *why)
{
    watch->gap_open = watch->was_up;
    snprintf(watch->lost_why, sizeof watch->lost_why, "%.255s", why);
}

static void close_gap(struct watch *watch)
{
    if (!watch->gap_open)
        return;
    struct recorder *recorder = watch->recorder;
    double from = recorder_seconds(recorder, watch->answered_ns), to = recorder_seconds(recorder, clock_now_ns());
    recorder_put(recorder, RECORD(gap, .from = from, .to = to, .reason = watch->lost_why));
    recorder_note(recorder, NOTE(unwatched, .from_seconds = from, .to_seconds = to, .reason = watch->lost_why));
    watch->gap_open = false;
}

/* Closes a useless connection; another one is opened later. */
static void lose(struct watch *watch, const char *why)
{
    if (watch->phase != WATCH_OFF && !watch->gap_open)
        open_gap(watch, why);
    watch->raises.up = watch->raises.asking = false;
    functions_lost(&watch->functions);
    omis_finalize();
    omis_reply_free(watch->reply);
    watch->reply = NULL;
    watch->phase = WATCH_OFF;
    uint64_t wait_ms = WATCH_FIRST_MS;
    for (unsigned i = 0; i < watch->tries && wait_ms < WATCH_LAST_MS; i++)
        wait_ms *= 2;
    watch->retry_ns = clock_now_ns() + wait_ms * 1000000;
    watch->tries++;
    log_debug("monitor state=lost tries=%u retry_ms=%llu why=%s", watch->tries, (unsigned long long)wait_ms,
              LOG_TEXT(why));
}

/* Rules are for new processes, so they must be in force before the command starts. */
static void arm(struct watch *watch)
{
    watch->phase = WATCH_IDLE;
    rules_arm(&watch->rules);
}

static void request_settings(struct watch *watch)
{
    struct buf text = BUF_INIT;
    tracing_request(&text, watch->options, watch->dir);
    if (text.len)
        send_request(watch, &text, WATCH_SETTING);
    else
        arm(watch);
    buf_done(&text);
}

static void settled(struct watch *watch)
{
    tracing_check(watch->reply, watch->options, &watch->refused);
    arm(watch);
}

static void told(struct watch *watch)
{
    watch->phase = WATCH_IDLE;
    tracing_answer(watch->reply, &watch->traces);
}

static void on_rule(void *ctx, size_t rule, Omis_reply reply)
{
    struct watch *watch = ctx;
    const char *text = watch->rules.list[rule].text;
    if (text == watch->changes)
        tracing_changed(reply, watch->changed, watch->ctx);
    else if (text == watch->requests)
        tracing_requested(watch->recorder, reply);
    else if (text == watch->wants)
        raise_take(&watch->raises, reply);
    else if (text == watch->stalls)
        tracing_stalled(watch->recorder, reply);
    else if (text == DENIED)
        tracing_denied(watch->recorder, &watch->rules.list[rule], reply);
    else
        tracing_record_rule(watch->recorder, &watch->rules.list[rule], reply);
}

static void add_rules(struct watch *watch)
{
    tracing_rule_changed(watch->changes, sizeof watch->changes, watch->dir);
    tracing_rule_requested(watch->requests, sizeof watch->requests, watch->dir);
    tracing_rule_stalled(watch->stalls, sizeof watch->stalls, watch->dir, watch->options->stall_seconds);
    raise_rule(watch->wants, sizeof watch->wants, watch->dir);
    watch->rules.fired = on_rule;
    watch->rules.ctx = watch;
    rules_add(&watch->rules, watch->changes, true);
    rules_add(&watch->rules, watch->requests, true);
    rules_add(&watch->rules, watch->wants, true);
    if (watch->options->mpi != RUN_MPI_OFF && watch->options->stall_seconds > 0)
        rules_add(&watch->rules, watch->stalls, true);
    if (watch->crash_stack)
        rules_add(&watch->rules, DENIED, true);
    for (size_t i = 0; i < watch->options->rule_count; i++)
        rules_add(&watch->rules, watch->options->rules[i], false);
}

static void created(struct watch *watch)
{
    struct err err = {0};
    if (answer_token(watch->reply, watch->token, sizeof watch->token, &err) < 0) {
        if (!watch->was_up && watch->tries == 0)
            recorder_note(watch->recorder, NOTE(not_followed, .reason = err.text));
        lose(watch, err.text);
        watch->tries = 30; /* it will take a while */
        return;
    }
    if (watch->crash_stack)
        stacks_arm(&watch->stacks, watch->token);
    watch->cursor = 0;
    watch->lost_before += watch->lost;
    watch->lost = 0;
    watch->tries = 0;
    close_gap(watch);
    watch->was_up = watch->fresh = true;
    watch->answered_ns = clock_now_ns();
    if (watch->rules.count == 0)
        add_rules(watch);
    watch->raises.dir = watch->dir;
    raise_restart(&watch->raises);
    request_settings(watch);
}

static void answered(struct watch *watch)
{
    struct err err = {0};
    struct answer_context context = {.recorder = watch->recorder,
                                     .bytes = &watch->bytes,
                                     .cursor = watch->cursor,
                                     .fresh = watch->fresh,
                                     .page_bytes = watch->page_bytes,
                                     .node_known = watch->node_known};
    watch->phase = WATCH_IDLE;
    if (answer_sample(watch->reply, &context, &err) < 0) {
        lose(watch, err.text);
        return;
    }
    close_gap(watch);
    watch->fresh = false;
    watch->cursor = context.cursor;
    watch->page_bytes = context.page_bytes;
    watch->node_known = context.node_known;
    watch->lost = context.lost;
    watch->coming = context.coming;
    watch->unseen = context.unseen;
    watch->unclocked_ns = context.unclocked_ns;
    watch->answered_ns = clock_now_ns();
}

void watch_handle(struct watch *watch)
{
    if (watch->phase == WATCH_OFF)
        return;
    omis_handler();
    if (!client_connected()) {
        lose(watch, "the monitor ended; scry run starts it again");
        return;
    }
    if (!watch->reply)
        return;
    /* handling a reply may send a request, which has no answer yet */
    Omis_reply reply = watch->reply;
    if (watch->phase == WATCH_CREATING)
        created(watch);
    else if (watch->phase == WATCH_SETTING)
        settled(watch);
    else if (watch->phase == WATCH_ASKING)
        answered(watch);
    else if (watch->phase == WATCH_TRACES)
        told(watch);
    if (watch->reply == reply) {
        omis_reply_free(watch->reply);
        watch->reply = NULL;
    }
}

static void connect_again(struct watch *watch)
{
    struct err err = {0};
    if (watch_connect(watch, &err) < 0) {
        open_gap(watch, err.text);
        lose(watch, err.text);
        return;
    }
    watch->phase = WATCH_CREATING;
    watch_create(watch);
}

void watch_tick(struct watch *watch)
{
    uint64_t now = clock_now_ns();
    if (watch->phase == WATCH_OFF) {
        if (now >= watch->retry_ns)
            connect_again(watch);
    } else if (watch->phase == WATCH_IDLE) {
        request_sample(watch);
        watch->functions.recorder = watch->recorder;
        if (!watch->options->trace_off)
            functions_ask(&watch->functions);
    } else if (now - watch->asked_ns > silence->limit_ms * WAITS_NS_PER_MS && !watch->gap_open) {
        const char *why = client_hangs(watch->asked_ns, silence->limit_ms);
        open_gap(watch, why ? why : "the monitor did not answer");
    }
}

void watch_ask_traces(struct watch *watch, bool flush)
{
    struct buf text = BUF_INIT;
    PUT_CALL(&text, "job_trace_info", watch->dir);
    if (flush) /* ranks may live a moment longer than their launcher */
        PUT_CALL(&text, "mpi_flush", watch->dir);
    watch->traces = (struct trace_info){0};
    send_request(watch, &text, WATCH_TRACES);
    buf_done(&text);
}

int watch_fd(const struct watch *watch)
{
    return watch->phase == WATCH_OFF ? -1 : omis_fd();
}

static bool is_asking(const struct watch *watch)
{
    return watch->phase != WATCH_OFF && watch->phase != WATCH_IDLE;
}

bool watch_wait(struct watch *watch, int timeout_ms)
{
    uint64_t until = clock_now_ns() + (uint64_t)timeout_ms * 1000000;
    while (is_asking(watch) || (watch->phase == WATCH_IDLE && (watch->stacks.arming > 0 || watch->rules.arming > 0))) {
        uint64_t now = clock_now_ns();
        unsigned limit_ms = (is_asking(watch) ? run : arming)->limit_ms;
        const char *why = client_hangs(watch->asked_ns, limit_ms);
        if (why)
            snprintf(watch->hangs, sizeof watch->hangs, "%.255s", why);
        if (why || now >= until)
            return false;
        uint64_t left_ms = (until - now) / 1000000 + 1;
        wait_fd(watch_fd(watch), POLLIN, (int)(left_ms < run->look_ms ? left_ms : run->look_ms));
        watch_handle(watch);
    }
    return watch->phase == WATCH_IDLE;
}

static void wait_raised(struct watch *watch, uint64_t until_ns)
{
    while (watch->phase == WATCH_IDLE && watch->raises.asking && clock_now_ns() < until_ns &&
           !client_hangs(watch->asked_ns, run->limit_ms)) {
        wait_fd(watch_fd(watch), POLLIN, (int)run->look_ms);
        watch_handle(watch);
    }
}

void watch_settle(struct watch *watch, int timeout_ms)
{
    watch->asked_ns = clock_now_ns();
    uint64_t until_ns = watch->asked_ns + (uint64_t)timeout_ms * 1000000;
    wait_raised(watch, until_ns);
    if (watch->phase == WATCH_IDLE)
        raise_settle(&watch->raises); /* the replies of rules come before the answer to this */
    wait_raised(watch, until_ns);
    watch->raises.up = false;
}

void watch_close(struct watch *watch)
{
    if (watch->phase == WATCH_IDLE) {
        watch->leaving = true;
        client_leave();
    }
    omis_reply_free(watch->reply);
    watch->reply = NULL;
    watch->phase = WATCH_OFF;
    stacks_done(&watch->stacks);
    bytes_close(&watch->bytes);
    raise_done(&watch->raises);
    functions_done(&watch->functions);
}

void watch_gone(struct watch *watch)
{
    /* do not wait for a monitor that does not answer: the end of this process tells it enough */
    if (watch->leaving)
        omis_finalize();
    watch->leaving = false;
}
