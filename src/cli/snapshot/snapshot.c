/* SPDX-License-Identifier: Apache-2.0 */
#define HASH_NONFATAL_OOM 1 /* for uthash */
#include "cli/snapshot/snapshot.h"

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/log.h"
#include "cli/common/cli.h"
#include "cli/common/find.h"
#include "client/client.h"
#include "client/decode.h"
#include "jobdir/record/info.h"
#include "jobdir/text/text.h"
#include "lang/put.h"
#include "lang/results.h"

#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <omis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* Three requests, whatever the number of processes and nodes: the nodes, which processes there are, and where their threads
 * are; and one for their queues. */

enum { ASKED_DEPTH = 256, ASKED_POINTERS = 1, ACTION_PROCESSES = 1, ACTION_STACKS = 2 };

/* ---- processes ---- */

static int by_rank(const void *a, const void *b)
{
    const struct snapshot_process *left = a, *right = b;
    if ((left->rank < 0) != (right->rank < 0))
        return left->rank < 0 ? 1 : -1;
    int jobs = strcmp(left->mpi_job, right->mpi_job);
    if (jobs)
        return jobs;
    if (left->rank != right->rank)
        return left->rank < right->rank ? -1 : 1;
    int hosts = strcmp(left->host, right->host);
    if (hosts)
        return hosts;
    return left->pid < right->pid ? -1 : left->pid > right->pid;
}

/* A node that is there, but does not answer. */
static void note_node(struct snapshot *snapshot, struct omis_reader *reader)
{
    const char *error = omis_reader_error(reader), *token = omis_reader_object(reader, 0);
    for (size_t i = 0; error && token && i < snapshot->nodes.count; i++)
        if (strcmp(snapshot->nodes.list[i].token, token) == 0)
            snapshot->nodes.list[i].problem = error;
}

static int take_processes(struct snapshot *snapshot, struct err *err)
{
    static const struct decode_field fields[] = {{"process", DECODE_TEXT, offsetof(struct snapshot_process, token)},
                                                 DECODE(struct snapshot_process, pid),
                                                 DECODE(struct snapshot_process, ppid),
                                                 DECODE(struct snapshot_process, name),
                                                 DECODE(struct snapshot_process, host),
                                                 DECODE(struct snapshot_process, mpi_job),
                                                 DECODE(struct snapshot_process, rank),
                                                 DECODE(struct snapshot_process, ranks),
                                                 {0}};
    struct decoder decoder;
    struct omis_reader *reader = snapshot->processes;
    decoder_init(&decoder, JOB_MEMBER, 0, fields);
    for (bool more = omis_reader_find(reader, ACTION_PROCESSES); more && omis_reader_action(reader) == ACTION_PROCESSES;
         more = omis_reader_next(reader)) {
        const struct omis_value *list = omis_item(omis_reader_values(reader), 0); /* of a node */
        size_t count = omis_reader_error(reader) ? 0 : decoder_rows(&decoder, list);
        note_node(snapshot, reader);
        struct snapshot_process *larger =
            reallocarray(snapshot->list, snapshot->count + count + 1, sizeof *snapshot->list);
        if (!larger)
            return err_set(err, -ENOMEM, "out of memory");
        snapshot->list = larger;
        for (size_t i = 0; i < count; i++) {
            struct snapshot_process *process = &snapshot->list[snapshot->count++];
            *process = (struct snapshot_process){.problem = ""};
            decode(&decoder, list, i, process);
        }
    }
    if (snapshot->count)
        qsort(snapshot->list, snapshot->count, sizeof *snapshot->list, by_rank);
    for (size_t i = 0; i < snapshot->count; i++) {
        struct snapshot_process *process = &snapshot->list[i];
        HASH_ADD_KEYPTR(hh, snapshot->tokens, process->token, strlen(process->token), process);
        if (!process->hh.tbl)
            return err_set(err, -ENOMEM, "out of memory");
    }
    return 0;
}

/* Without --all, of an MPI program only its ranks. */
static int choose(struct snapshot *snapshot, const struct snapshot_options *options, struct err *err)
{
    bool has_ranks = false;
    size_t wanted = 0;
    for (size_t i = 0; i < snapshot->count; i++)
        has_ranks |= snapshot->list[i].rank >= 0;
    for (size_t i = 0; i < snapshot->count; i++) {
        struct snapshot_process *process = &snapshot->list[i];
        process->wanted = process->rank >= 0 || !has_ranks || (options->all && !options->ranks);
        if (options->ranks) {
            int code = snapshot_set_has(options->ranks, process->rank < 0 ? 0 : (uint32_t)process->rank,
                                        &process->wanted, err);
            if (code < 0)
                return code;
            process->wanted &= process->rank >= 0;
        }
        snapshot->ranks += process->rank >= 0;
        snapshot->others_left += process->rank < 0 && !process->wanted;
        wanted += process->wanted;
    }
    if (options->ranks && !wanted)
        return err_set(err, -ENOENT, "no process of the job is one of the ranks %s%s", options->ranks,
                       has_ranks ? "" : ": none is known to be a rank");
    return wanted ? 0 : err_set(err, -ENOENT, "the job has no processes that its monitor knows");
}

/* ---- stacks ---- */

static struct snapshot_process *process_of(const struct snapshot *snapshot, const char *token)
{
    struct snapshot_process *process;
    HASH_FIND_STR(snapshot->tokens, token, process);
    return process;
}

struct stack_row {
    const char *name;
    uint64_t threads, running;
    bool first;
    const struct omis_value *frames;
};

/* The variables of a frame, for as long as the tree lives. */
static void read_variables(struct snapshot *snapshot, const struct omis_value *list, struct stack_frame *frame)
{
    static const struct decode_field fields[] = {DECODE(struct stack_variable, name),
                                                 DECODE(struct stack_variable, type),
                                                 DECODE(struct stack_variable, value),
                                                 {0}};
    struct decoder decoder;
    decoder_init(&decoder, STACKS_VALUE, 0, fields);
    size_t count = decoder_rows(&decoder, list);
    struct stack_variable *variables = count ? arena_zalloc(&snapshot->tree.arena, count, sizeof *variables) : NULL;
    snapshot->tree.failed |= count && !variables;
    for (size_t i = 0; variables && i < count; i++)
        decode(&decoder, list, i, &variables[i]);
    frame->variables = variables;
    frame->variable_count = variables ? count : 0;
}

static size_t read_frames(struct snapshot *snapshot, const struct omis_value *list, bool values,
                          struct stack_frame *ret_frames)
{
    struct row {
        const char *language, *function, *file, *module;
        uint64_t line;
        const struct omis_value *values;
    } row = {0};
    static const struct decode_field fields[] = {DECODE(struct row, language), DECODE(struct row, function),
                                                 DECODE(struct row, file),     DECODE(struct row, module),
                                                 DECODE(struct row, line),     {0}};
    static const struct decode_field with_values[] = {DECODE(struct row, language),
                                                      DECODE(struct row, function),
                                                      DECODE(struct row, file),
                                                      DECODE(struct row, module),
                                                      DECODE(struct row, line),
                                                      DECODE(struct row, values),
                                                      {0}};
    struct decoder decoder;
    decoder_init(&decoder, values ? STACKS_FRAME_VALUES : STACKS_FRAME, 0, values ? with_values : fields);
    size_t count = decoder_rows(&decoder, list), most = ASKED_DEPTH * 4;
    count = count < most ? count : most;
    for (size_t i = 0; i < count; i++) {
        decode(&decoder, list, i, &row);
        ret_frames[i] =
            (struct stack_frame){row.language, row.function, row.file, row.module, (unsigned)(row.line & INT32_MAX)};
        if (values)
            read_variables(snapshot, row.values, &ret_frames[i]);
    }
    return count;
}

static bool is_wanted(const struct stack_row *row, const struct snapshot_options *options)
{
    if (!options->thread)
        return true;
    return strcmp(options->thread, "main") == 0 ? row->first : fnmatch(options->thread, row->name, 0) == 0;
}

/* The stacks of processes that do the same. */
static void take_stacks(struct snapshot *snapshot, const struct omis_value *list, const uint32_t *processes,
                        size_t count, const struct snapshot_options *options)
{
    static const struct decode_field fields[] = {DECODE(struct stack_row, name),    DECODE(struct stack_row, threads),
                                                 DECODE(struct stack_row, running), DECODE(struct stack_row, first),
                                                 DECODE(struct stack_row, frames),  {0}};
    struct stack_frame frames[ASKED_DEPTH * 4];
    struct decoder decoder;
    struct stack_row row;
    decoder_init(&decoder, options->values ? STACKS_STACK_OF(STACKS_FRAME_VALUES) : STACKS_STACK_OF(STACKS_FRAME), 0,
                 fields);
    for (size_t i = 0; i < decoder_rows(&decoder, list); i++) {
        decode(&decoder, list, i, &row);
        if (!is_wanted(&row, options))
            continue;
        size_t frame_count = read_frames(snapshot, row.frames, options->values, frames);
        if (!options->all)
            frame_count = snapshot_trim(frames, frame_count);
        size_t cut = options->depth && frame_count > options->depth ? frame_count - options->depth : 0;
        uint32_t threads = (uint32_t)row.threads;
        /* a stack of which one thread is the first: the others of that name do the same */
        if (options->thread && strcmp(options->thread, "main") == 0)
            threads = 1;
        stack_tree_add(&snapshot->tree,
                       &(struct stack_seen){.processes = processes,
                                            .process_count = count,
                                            .frames = frames + cut,
                                            .frame_count = frame_count - cut,
                                            .threads = threads,
                                            .running = row.running < threads ? (uint32_t)row.running : threads});
        for (size_t k = 0; k < count; k++)
            snapshot->list[processes[k]].threads += threads;
    }
}

/* An answer is of all processes that gave the same one. */
static int take_answer(struct snapshot *snapshot, const struct snapshot_options *options, uint32_t *processes)
{
    struct omis_reader *reader = snapshot->stacks;
    const char *error = omis_reader_error(reader), *problem = error;
    const struct omis_value *values = omis_reader_values(reader);
    size_t count = 0;
    if (!error)
        problem = omis_text(omis_item(values, 1), NULL);
    for (size_t i = 0; omis_reader_object(reader, i) && count < snapshot->count; i++) {
        struct snapshot_process *process = process_of(snapshot, omis_reader_object(reader, i));
        if (!process || process->answered)
            continue;
        process->answered = true;
        process->problem = arena_dup(&snapshot->tree.arena, problem, strlen(problem));
        if (!process->problem)
            return -ENOMEM;
        processes[count++] = (uint32_t)(process - snapshot->list);
    }
    if (!error && count)
        take_stacks(snapshot, omis_item(values, 2), processes, count, options);
    return snapshot->tree.failed ? -ENOMEM : 0;
}

static int read_stacks(struct snapshot *snapshot, const struct snapshot_options *options, struct err *err)
{
    _cleanup_(freep) uint32_t *processes = calloc(snapshot->count + 1, sizeof *processes);
    int code = processes ? 0 : -ENOMEM;
    struct omis_reader *reader = snapshot->stacks;
    if (omis_reader_find(reader, 0) && omis_reader_error(reader))
        return err_set(err, -EIO, "%s", omis_reader_error(reader));
    for (bool more = omis_reader_find(reader, ACTION_STACKS); code == 0 && more; more = omis_reader_next(reader))
        if (omis_reader_action(reader) == ACTION_STACKS)
            code = take_answer(snapshot, options, processes);
    for (size_t i = 0; i < snapshot->count; i++) {
        struct snapshot_process *process = &snapshot->list[i];
        if (process->wanted && !process->answered)
            process->problem = "it has ended";
        snapshot->unread += process->wanted && !process->threads;
    }
    if (code == 0 && !stack_tree_finish(&snapshot->tree))
        code = -ENOMEM;
    return code < 0 ? err_set(err, code, "out of memory") : 0;
}

/* ---- the requests ---- */

static struct omis_reader *ask(struct buf *request_take)
{
    Omis_reply reply = client_ask(request_take);
    return reply ? omis_reader_take(reply) : NULL;
}

/* ":SERVICE([tokens]"; false: there are none. */
static bool put_tokens(struct buf *request, const struct snapshot *snapshot, const char *service, bool ranks)
{
    size_t count = 0;
    buf_printf(request, "%s%s([", request->len ? " " : ":", service);
    for (size_t i = 0; i < snapshot->count; i++)
        if (snapshot->list[i].wanted && (!ranks || snapshot->list[i].rank >= 0))
            buf_printf(request, "%s%s", count++ ? "," : "", snapshot->list[i].token);
    buf_putc(request, ']');
    return count > 0;
}

void snapshot_note(struct snapshot *snapshot, uint32_t process, const char *problem)
{
    if (!*snapshot->list[process].problem)
        snapshot->list[process].problem = problem;
}

static int take_each(struct snapshot *snapshot, struct omis_reader *reader, snapshot_add_fn *add)
{
    int code = 0;
    while (code == 0 && omis_reader_next(reader)) {
        const char *error = omis_reader_error(reader), *token;
        for (size_t i = 0; code == 0 && (token = omis_reader_object(reader, i)); i++) {
            struct snapshot_process *process = process_of(snapshot, token);
            if (process)
                code = add(snapshot, (uint32_t)(process - snapshot->list), error ? NULL : omis_reader_values(reader),
                           error);
        }
    }
    return code;
}

int snapshot_ask_each(struct snapshot *snapshot, const char *service, bool ranks, const char *more,
                      struct omis_reader **ret_reader, snapshot_add_fn *add, struct err *err)
{
    struct buf request = BUF_INIT;
    if (!put_tokens(&request, snapshot, service, ranks)) { /* the empty list means all that the tool has */
        buf_done(&request);
        return -ENOENT;
    }
    buf_printf(&request, "%s)", more);
    *ret_reader = ask(&request);
    int code = *ret_reader ? take_each(snapshot, *ret_reader, add) : -ENOMEM;
    return code < 0 ? err_set(err, code, "out of memory") : 0;
}

/* A job behind a broker is asked on its own node only. */
static int attach(struct snapshot *snapshot, const char *job, bool near, struct err *err)
{
    struct buf request = BUF_INIT;
    if (near)
        return job_nodes_attach(&snapshot->nodes, job, err);
    buf_puts(&request, ":node_attach2(\"\")");
    omis_reader_free(ask(&request));
    return 0;
}

static int no_answer(struct omis_reader *reader, struct err *err)
{
    const char *why = reader ? omis_reader_first_error(reader) : "out of memory";
    return why ? err_set(err, -EIO, "the monitor does not answer: %s", why) : 0;
}

int snapshot_ask(struct snapshot *snapshot, const char *job, bool near, const struct snapshot_options *options,
                 struct err *err)
{
    struct buf request = BUF_INIT;
    stack_tree_init(&snapshot->tree);
    int code = attach(snapshot, job, near, err);
    if (code < 0)
        return code;
    buf_puts(&request, ":job_get_processes([],");
    value_print_string(&request, span_str(job));
    buf_putc(&request, ')');
    snapshot->processes = ask(&request);
    code = snapshot->processes ? 0 : err_set(err, -ENOMEM, "out of memory");
    if (code == 0)
        code = take_processes(snapshot, err);
    if (code == 0 && !snapshot->count)
        code = no_answer(snapshot->processes, err);
    for (size_t i = 0; i < snapshot->nodes.count; i++)
        snapshot->unreached += *snapshot->nodes.list[i].problem != '\0';
    if (code == 0)
        code = choose(snapshot, options, err);
    if (code < 0)
        return code;
    uint64_t began_ns = clock_now_ns();
    put_tokens(&request, snapshot, "proc_attach", false);
    buf_puts(&request, ");");
    put_tokens(&request, snapshot, options->values ? "ct_get_stack_values" : "ct_get_stacks", false);
    buf_printf(&request, ",%d", ASKED_DEPTH);
    if (options->values)
        buf_printf(&request, ",%d", ASKED_POINTERS);
    buf_putc(&request, ')');
    snapshot->stacks = ask(&request);
    snapshot->read_ns = clock_now_ns() - began_ns;
    code = snapshot->stacks ? read_stacks(snapshot, options, err) : err_set(err, -ENOMEM, "out of memory");
    snapshot->has_queues = options->queues;
    snapshot->has_values = options->values;
    snapshot->has_files = options->files;
    if (code == 0 && options->queues)
        code = snapshot_ask_queues(snapshot, err);
    if (code == 0 && options->queues)
        code = snapshot_ask_messages(snapshot, err);
    return code == 0 && options->files ? snapshot_ask_files(snapshot, err) : code;
}

void snapshot_done(struct snapshot *snapshot)
{
    stack_tree_done(&snapshot->tree);
    omis_reader_free(snapshot->processes);
    omis_reader_free(snapshot->stacks);
    omis_reader_free(snapshot->queues);
    omis_reader_free(snapshot->unexpected);
    omis_reader_free(snapshot->open_files);
    free(snapshot->messages);
    free(snapshot->operations);
    free(snapshot->files);
    job_nodes_done(&snapshot->nodes);
    HASH_CLEAR(hh, snapshot->tokens);
    free(snapshot->list);
}

/* The command: finds the job, asks, prints. */

/* Whether its processes can be asked now. 0, or -errno with err. */
static int check_state(const struct found_job *job, struct job_info *info, struct err *err)
{
    enum job_state state;
    int code = job_info_read_state(job->path, info, &state, err);
    if (code < 0)
        return code;
    if (state != JOB_RUNNING)
        return err_set(err, -ESRCH,
                       "job %s does not run (it is %s), so its threads are nowhere: scry report shows what it was",
                       info->id, job_state_name(state));
    if (job->remote && (!job->takes_requests || !job->url.data || !job->dir[0]))
        return err_set(err, -ENOTCONN, "job %s takes no requests through the broker", info->id);
    return 0;
}

static int join(const struct found_job *job, struct err *err)
{
    if (job->remote ? client_join_job(job->url.data) : client_join())
        return 0;
    return err_set(err, -ENOTCONN, "the monitor of the job cannot be asked: %s", client_error());
}

static int print(const struct snapshot *snapshot, bool json)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    if (json)
        text_put_json(&out, snapshot_json(snapshot));
    else
        snapshot_text(&out, snapshot, text_columns(STDOUT_FILENO));
    if (out.failed) {
        log_error("out of memory");
        return EXIT_ERRORS;
    }
    cli_print(out.data, out.len);
    return snapshot->unread || snapshot->unreached ? EXIT_ERRORS : 0;
}

int cmd_snapshot(const struct options *options)
{
    const bool json = options_on(options, "json");
    const struct snapshot_options wanted = {.all = options_on(options, "all") || json,
                                            .depth = (unsigned)options_number(options, "depth"),
                                            .ranks = options_text(options, "rank"),
                                            .thread = options_text(options, "thread"),
                                            .queues = options_on(options, "queues"),
                                            .files = options_on(options, "files"),
                                            .values = options_on(options, "values")};
    struct snapshot snapshot = {0};
    struct job_info info = {0};
    struct found_job job;
    struct err err = {0};
    bool has;
    if (wanted.ranks && snapshot_set_has(wanted.ranks, 0, &has, &err) < 0)
        return cli_usage_error(options, "%s", err.text);
    int status = EXIT_ERRORS, code = find_job(&job, options->words[0], &err);
    _cleanup_(freep) char *real = code == 0 ? realpath(job.path, NULL) : NULL; /* as the monitor knows it */
    if (code == 0)
        code = check_state(&job, &info, &err);
    if (code == 0 && (code = join(&job, &err)) == 0) {
        snapshot.job = info.id;
        code = snapshot_ask(&snapshot, job.remote ? job.dir : real ? real : job.path, !job.remote, &wanted, &err);
        omis_finalize();
    }
    if (code == 0)
        status = print(&snapshot, json);
    else
        cli_log_error(&err);
    snapshot_done(&snapshot);
    job_info_done(&info);
    find_close(&job);
    return status;
}
