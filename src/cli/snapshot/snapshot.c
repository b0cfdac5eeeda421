/* SPDX-License-Identifier: Apache-2.0 */
#define HASH_NONFATAL_OOM 1 /* for uthash */
#include "cli/snapshot/snapshot.h"

#include <errno.h>
#include <fnmatch.h>
#include <omis.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/log.h"
#include "base/system/proc_file.h"
#include "cli/common/cli.h"
#include "cli/common/find.h"
#include "cli/common/pids.h"
#include "client/client.h"
#include "client/decode.h"
#include "jobdir/record/info.h"
#include "jobdir/text/fields.h"
#include "jobdir/text/text.h"
#include "lang/value.h"
#include "lang/results.h"

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

/* After the last: sorts them, so that they can be found. */
static int processes_finish(struct snapshot *snapshot, struct err *err)
{
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
    return processes_finish(snapshot, err);
}

/* Without --all, of an MPI program only its ranks. */
static int processes_choose(struct snapshot *snapshot, const struct snapshot_options *options, struct err *err)
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

static struct omis_reader *request_ask(struct buf *request_take)
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
    *ret_reader = request_ask(&request);
    int code = *ret_reader ? take_each(snapshot, *ret_reader, add) : -ENOMEM;
    return code < 0 ? err_set(err, code, "out of memory") : 0;
}

/* A job behind a broker is asked on its own node only. */
static int nodes_attach(struct snapshot *snapshot, const char *job, bool near, struct err *err)
{
    struct buf request = BUF_INIT;
    if (near)
        return job_nodes_attach(&snapshot->nodes, job, err);
    buf_puts(&request, ":node_attach2(\"\")");
    omis_reader_free(request_ask(&request));
    return 0;
}

static int no_answer(struct omis_reader *reader, struct err *err)
{
    const char *why = reader ? omis_reader_first_error(reader) : "out of memory";
    return why ? err_set(err, -EIO, "the monitor does not answer: %s", why) : 0;
}

/* The threads of all that are wanted, and what else is. */
static int ask_threads(struct snapshot *snapshot, const struct snapshot_options *options, struct err *err)
{
    struct buf request = BUF_INIT;
    uint64_t began_ns = clock_now_ns();
    put_tokens(&request, snapshot, "proc_attach", false);
    buf_puts(&request, ");");
    put_tokens(&request, snapshot, options->values ? "ct_get_stack_values" : "ct_get_stacks", false);
    buf_printf(&request, ",%d", ASKED_DEPTH);
    if (options->values)
        buf_printf(&request, ",%d", ASKED_POINTERS);
    buf_putc(&request, ')');
    snapshot->stacks = request_ask(&request);
    snapshot->read_ns = clock_now_ns() - began_ns;
    int code = snapshot->stacks ? read_stacks(snapshot, options, err) : err_set(err, -ENOMEM, "out of memory");
    snapshot->has_queues = options->queues;
    snapshot->has_values = options->values;
    snapshot->has_files = options->files;
    if (code == 0 && options->queues)
        code = snapshot_ask_queues(snapshot, err);
    if (code == 0 && options->queues)
        code = snapshot_ask_messages(snapshot, err);
    return code == 0 && options->files ? snapshot_ask_files(snapshot, err) : code;
}

int snapshot_ask(struct snapshot *snapshot, const char *job, bool near, const struct snapshot_options *options,
                 struct err *err)
{
    struct buf request = BUF_INIT;
    stack_tree_init(&snapshot->tree);
    int code = nodes_attach(snapshot, job, near, err);
    if (code < 0)
        return code;
    buf_puts(&request, ":job_get_processes([],");
    value_print_string(&request, span_str(job));
    buf_putc(&request, ')');
    snapshot->processes = request_ask(&request);
    code = snapshot->processes ? 0 : err_set(err, -ENOMEM, "out of memory");
    if (code == 0)
        code = take_processes(snapshot, err);
    if (code == 0 && !snapshot->count)
        code = no_answer(snapshot->processes, err);
    for (size_t i = 0; i < snapshot->nodes.count; i++)
        snapshot->unreached += *snapshot->nodes.list[i].problem != '\0';
    if (code == 0)
        code = processes_choose(snapshot, options, err);
    if (code < 0)
        return code;
    return ask_threads(snapshot, options, err);
}

/* How the monitor calls the process, or why it does not. */
static int add_process(struct snapshot *snapshot, pid_t pid)
{
    struct proc_stat stat = {0};
    struct omis_reader *reader = snapshot->processes;
    const char *error = omis_reader_error(reader);
    struct snapshot_process *process = &snapshot->list[snapshot->count];
    *process =
        (struct snapshot_process){.token = error ? "u_0" : omis_text(omis_item(omis_reader_values(reader), 0), NULL),
                                  .mpi_job = "",
                                  .host = snapshot->here,
                                  .pid = pid,
                                  .rank = -1,
                                  .ranks = -1,
                                  .problem = error ? error : "",
                                  .wanted = !error};
    if (proc_stat_of(pid, 0, &stat) == 0)
        process->ppid = stat.ppid;
    process->name = arena_dup(&snapshot->tree.arena, stat.comm, strlen(stat.comm));
    snapshot->count += process->name != NULL;
    return process->name ? 0 : -ENOMEM;
}

int snapshot_ask_pids(struct snapshot *snapshot, const pid_t *pids, size_t count,
                      const struct snapshot_options *options, struct err *err)
{
    struct buf request = BUF_INIT;
    stack_tree_init(&snapshot->tree);
    gethostname(snapshot->here, sizeof snapshot->here - 1);
    PUT_CALL(&request, "node_attach2", "");
    for (size_t i = 0; i < count; i++)
        buf_printf(&request, " proc_attach3([],%d,\"\")", (int)pids[i]);
    snapshot->list = calloc(count, sizeof *snapshot->list);
    snapshot->processes = request_ask(&request);
    if (!snapshot->processes || !snapshot->list)
        return err_set(err, -ENOMEM, "out of memory");
    size_t wanted = 0;
    for (size_t i = 0; i < count; i++) {
        if (!omis_reader_find(snapshot->processes, i + 2))
            continue;
        if (add_process(snapshot, pids[i]) < 0)
            return err_set(err, -ENOMEM, "out of memory");
        wanted += snapshot->list[snapshot->count - 1].wanted;
    }
    int code = snapshot->count ? processes_finish(snapshot, err) : no_answer(snapshot->processes, err);
    if (code == 0 && !wanted)
        return err_set(err, -ESRCH, "%s", snapshot->count ? snapshot->list[0].problem : "the monitor does not answer");
    return code < 0 ? code : ask_threads(snapshot, options, err);
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

/* ---- for programs: the processes, and the nodes of the tree as a list ---- */

static const struct field process_fields[] = {
    {"pid", FIELD_INTEGER, FIELD_AT(struct snapshot_process, pid)},
    {"ppid", FIELD_INTEGER, FIELD_AT(struct snapshot_process, ppid)},
    {"name", FIELD_TEXT, FIELD_AT(struct snapshot_process, name)},
    {"host", FIELD_TEXT, FIELD_AT(struct snapshot_process, host)},
    {"token", FIELD_TEXT, FIELD_AT(struct snapshot_process, token), .about = "of the monitor, for scry omis"},
    {"mpi_job", FIELD_TEXT, FIELD_AT(struct snapshot_process, mpi_job), FIELD_ZERO_IS_NULL,
     .about = "tells the ranks of several MPI programs apart"},
    {"rank", FIELD_INTEGER, FIELD_AT(struct snapshot_process, rank), .about = "-1: none"},
    {"ranks", FIELD_INTEGER, FIELD_AT(struct snapshot_process, ranks), .about = "of its MPI program; -1: not known"},
    {"threads", FIELD_INTEGER, FIELD_AT(struct snapshot_process, threads), .about = "that were read"},
    {"queue_note", FIELD_TEXT, FIELD_AT(struct snapshot_process, queue_note), FIELD_ZERO_IS_NULL,
     .about = "why not all messages of MPI to it are known (--queues)"},
    {"problem", FIELD_TEXT, FIELD_AT(struct snapshot_process, problem), FIELD_ZERO_IS_NULL,
     .about = "why nothing, or not all, is known of it"},
    {0}};

static json_t *parent_json(const void *row, const void *all)
{
    return json_integer(((const struct stack_node *)row)->parent->number);
}

static json_t *members_json(const void *row, const void *all, bool threads)
{
    const struct stack_node *node = row;
    json_t *list = json_array();
    for (size_t i = 0; i < node->member_count; i++)
        json_array_append_new(list, json_integer(threads ? node->members[i].threads : node->members[i].process));
    return list;
}

static json_t *processes_of_json(const void *row, const void *all)
{
    return members_json(row, all, false);
}

static json_t *threads_of_json(const void *row, const void *all)
{
    return members_json(row, all, true);
}

static json_t *holders_json(const void *row, const void *all)
{
    const struct stack_value *value = row;
    json_t *list = json_array();
    for (size_t i = 0; i < value->member_count; i++)
        json_array_append_new(list, json_integer(value->members[i].process));
    return list;
}

static json_t *name_json(const void *row, const void *all)
{
    return json_string(((const struct stack_value *)row)->variable->name);
}

static json_t *type_json(const void *row, const void *all)
{
    return json_string(((const struct stack_value *)row)->variable->type);
}

static json_t *value_json(const void *row, const void *all)
{
    return json_string(((const struct stack_value *)row)->variable->value);
}

static const struct field value_fields[] = {
    {"name", FIELD_TEXT, .json = name_json, .about = "\"\": value says why nothing is known of the variables"},
    {"type", FIELD_TEXT, .json = type_json},
    {"value", FIELD_TEXT, .json = value_json, .about = "as text; <not available>, <optimised out>: it is not known"},
    {"threads", FIELD_INTEGER, FIELD_AT(struct stack_value, threads), .about = "that have this value"},
    {"processes", FIELD_LIST, .json = holders_json, .of = fields_integers,
     .about = "whose threads these are: their places in the list of processes, from 0"},
    {0}};

static json_t *values_json(const void *row, const void *all)
{
    const struct stack_node *node = row;
    return fields_list(value_fields, node->values, node->value_count, sizeof *node->values, NULL);
}

#define NODE(member) FIELD_AT(struct stack_node, member)
static const struct field node_fields[] = {
    {"number", FIELD_INTEGER, NODE(number)},
    {"parent", FIELD_INTEGER, .json = parent_json, .about = "its number; 0: here the threads began"},
    {"language", FIELD_CHOICE, NODE(frame.language), .choices = "native|python|note",
     .about = "note: function says why nothing is known there"},
    {"function", FIELD_TEXT, NODE(frame.function), FIELD_ZERO_IS_NULL},
    {"file", FIELD_TEXT, NODE(frame.file), FIELD_ZERO_IS_NULL},
    {"line", FIELD_INTEGER, NODE(frame.line), FIELD_ZERO_IS_NULL},
    {"module", FIELD_TEXT, NODE(frame.module), FIELD_ZERO_IS_NULL},
    {"threads", FIELD_INTEGER, NODE(threads), .about = "here, or in a function that was called from here"},
    {"running", FIELD_INTEGER, NODE(running), .about = "of these, those that had a processor"},
    {"innermost", FIELD_INTEGER, NODE(ended), .about = "of these, those that are in this function itself"},
    {"processes", FIELD_LIST, .json = processes_of_json, .of = fields_integers,
     .about = "whose threads these are: their places in the list of processes, from 0"},
    {"process_threads", FIELD_LIST, .json = threads_of_json, .of = fields_integers,
     .about = "how many threads each of these has here"},
    {"values", FIELD_LIST, .json = values_json, .of = value_fields,
     .about = "arguments and locals (--values), each with all its values"},
    {0}};

static json_t *processes_json(const void *row, const void *all)
{
    const struct snapshot *snapshot = row;
    return fields_list(process_fields, snapshot->list, snapshot->count, sizeof *snapshot->list, NULL);
}

static json_t *nodes_json(const void *row, const void *all)
{
    json_t *list = json_array();
    for (const struct stack_node *node = ((const struct snapshot *)row)->tree.nodes; node; node = node->hh.next)
        json_array_append_new(list, fields_json(node_fields, node, NULL));
    return list;
}

static json_t *age_json(const void *row, const void *all)
{
    return json_real((double)((const struct snapshot_operation *)row)->age_ns / 1e9);
}

#define OPERATION(member) FIELD_AT(struct snapshot_operation, member)
static const struct field operation_fields[] = {
    {"process", FIELD_COUNT, OPERATION(process), .about = "its place in the list of processes, from 0"},
    {"call", FIELD_TEXT, OPERATION(call), .about = "that began it"},
    {"kind", FIELD_CHOICE, OPERATION(kind), .choices = "send|receive|other"},
    {"state", FIELD_CHOICE, OPERATION(state), .choices = "active|inactive|freed",
     .about = "inactive: a persistent request that is not started"},
    {"peer", FIELD_INTEGER, OPERATION(peer),
     .about = "a world rank; -1: any, -2: MPI_PROC_NULL, -3: none, -4: root, -5: of another MPI program"},
    {"tag", FIELD_INTEGER, OPERATION(tag), .about = "-1: any, -3: none"},
    {"comm", FIELD_INTEGER, OPERATION(comm),
     .about = "the communicator's number in that process; 0: MPI_COMM_WORLD; -1: not known"},
    {"bytes", FIELD_INTEGER, OPERATION(bytes)},
    {"seconds", FIELD_NUMBER, .json = age_json, .about = "since it was begun"},
    {0}};

static json_t *operations_json(const void *row, const void *all)
{
    const struct snapshot *snapshot = row;
    return snapshot->has_queues ? fields_list(operation_fields, snapshot->operations, snapshot->operation_count,
                                              sizeof *snapshot->operations, NULL)
                                : json_null();
}

#define MESSAGE(member) FIELD_AT(struct snapshot_message, member)
static json_t *sent_json(const void *row, const void *all)
{
    return json_real((double)((const struct snapshot_message *)row)->age_ns / 1e9);
}

static const struct field message_fields[] = {
    {"process", FIELD_COUNT, MESSAGE(process), .about = "that it was sent to: its place in the list, from 0"},
    {"rank", FIELD_INTEGER, MESSAGE(rank), .about = "the world rank that sent it"},
    {"tag", FIELD_INTEGER, MESSAGE(tag)},
    {"comm", FIELD_INTEGER, MESSAGE(comm),
     .about = "the communicator's number in the process; 0: MPI_COMM_WORLD; -1: not known"},
    {"bytes", FIELD_INTEGER, MESSAGE(bytes), .about = "-1: not known any more"},
    {"seconds", FIELD_NUMBER, .json = sent_json, .about = "since it was sent"},
    {"doubts", FIELD_TEXT, MESSAGE(doubts), FIELD_ZERO_IS_NULL, .about = "why it is not certain"},
    {0}};

static json_t *messages_json(const void *row, const void *all)
{
    const struct snapshot *snapshot = row;
    return snapshot->has_queues ? fields_list(message_fields, snapshot->messages, snapshot->message_count,
                                              sizeof *snapshot->messages, NULL)
                                : json_null();
}

#define OPEN_FILE(member) FIELD_AT(struct snapshot_file, member)
static const struct field file_fields[] = {
    {"process", FIELD_COUNT, OPEN_FILE(process), .about = "its place in the list of processes, from 0"},
    {"fd", FIELD_INTEGER, OPEN_FILE(fd)},
    {"kind", FIELD_CHOICE, OPEN_FILE(kind), .choices = "file|directory|device|pipe|socket|memory|other"},
    {"path", FIELD_TEXT, OPEN_FILE(path), FIELD_ZERO_IS_NULL, .about = "of another kind: what the kernel calls it"},
    {"flags", FIELD_TEXT, OPEN_FILE(flags), .about = "words of read, write, append, nonblock, direct, sync"},
    {"offset", FIELD_INTEGER, OPEN_FILE(offset), .about = "where it is read or written next; -1: it has none"},
    {"size", FIELD_INTEGER, OPEN_FILE(size),
     .about = "as the node knows it without asking a file system; -1: not known"},
    {0}};

static json_t *files_json(const void *row, const void *all)
{
    const struct snapshot *snapshot = row;
    return snapshot->has_files
               ? fields_list(file_fields, snapshot->files, snapshot->file_count, sizeof *snapshot->files, NULL)
               : json_null();
}

static json_t *seconds_json(const void *row, const void *all)
{
    return json_real((double)((const struct snapshot *)row)->read_ns / 1e9);
}

static const struct field host_fields[] = {
    {"name", FIELD_TEXT, FIELD_AT(struct job_node, name),
     .about = "as the launcher named it; \"\": where the job began"},
    {"token", FIELD_TEXT, FIELD_AT(struct job_node, token), .about = "of the monitor; u_0: it could not be reached"},
    {"problem", FIELD_TEXT, FIELD_AT(struct job_node, problem), FIELD_ZERO_IS_NULL,
     .about = "why nothing is known of it"},
    {0}};

static json_t *hosts_json(const void *row, const void *all)
{
    const struct job_nodes *nodes = &((const struct snapshot *)row)->nodes;
    return fields_list(host_fields, nodes->list, nodes->count, sizeof *nodes->list, NULL);
}

static const struct field fields[] = {
    {"id", FIELD_TEXT, FIELD_AT(struct snapshot, job), FIELD_ZERO_IS_NULL,
     .about = "of the job; null: processes that scry did not start (*scry snapshot PID*)"},
    {"seconds", FIELD_NUMBER, .json = seconds_json, .about = "how long it took; nothing is stopped meanwhile"},
    {"hosts", FIELD_LIST, .json = hosts_json, .of = host_fields, .about = "the job's nodes that were asked"},
    {"processes", FIELD_LIST, .json = processes_json, .of = process_fields,
     .about = "ranks first, then the others; those that were not asked for have no threads"},
    {"nodes", FIELD_LIST, .json = nodes_json, .of = node_fields,
     .about = "of the tree of stacks, each behind its parent: a function with its line"},
    {"operations", FIELD_LIST, .flags = FIELD_OR_NULL, .json = operations_json, .of = operation_fields,
     .about = "requests of MPI that are not completed; null: not asked for (--queues)"},
    {"messages", FIELD_LIST, .flags = FIELD_OR_NULL, .json = messages_json, .of = message_fields,
     .about = "of MPI that no receive has taken; null: not asked for (--queues)"},
    {"files", FIELD_LIST, .flags = FIELD_OR_NULL, .json = files_json, .of = file_fields,
     .about = "that processes have open; null: not asked for (--files)"},
    {0}};

static json_t *snapshot_json(const struct snapshot *snapshot)
{
    return fields_json(fields, snapshot, NULL);
}

json_t *snapshot_schema(void)
{
    return fields_schema(fields);
}

/* ---- the command: finds the job, asks, prints ---- */

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

static int monitor_join(const struct found_job *job, struct err *err)
{
    if (job->remote ? client_join_job(job->url.data) : client_join())
        return 0;
    return err_set(err, -ENOTCONN, "the monitor of the job cannot be asked: %s", client_error());
}

static int snapshot_print(const struct snapshot *snapshot, bool json)
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

static int snapshot_job(const char *word, const struct snapshot_options *wanted, bool json)
{
    struct snapshot snapshot = {0};
    struct job_info info = {0};
    struct found_job job;
    struct err err = {0};
    int status = EXIT_ERRORS, code = find_job(&job, word, &err);
    _cleanup_(freep) char *real = code == 0 ? realpath(job.path, NULL) : NULL; /* as the monitor knows it */
    if (code == 0)
        code = check_state(&job, &info, &err);
    if (code == 0 && (code = monitor_join(&job, &err)) == 0) {
        snapshot.job = info.id;
        code = snapshot_ask(&snapshot, job.remote ? job.dir : real ? real : job.path, !job.remote, wanted, &err);
        omis_finalize();
    }
    if (code == 0)
        status = snapshot_print(&snapshot, json);
    else
        cli_log_error(&err);
    snapshot_done(&snapshot);
    job_info_done(&info);
    find_close(&job);
    return status;
}

/* A monitor that does not run is started. */
static int snapshot_pids(const struct options *options, const struct snapshot_options *wanted, bool json)
{
    _cleanup_(freep) pid_t *list = NULL;
    struct snapshot snapshot = {0};
    struct err err = {0};
    size_t count;
    if (wanted->ranks)
        return cli_usage_error(options, "--rank is for jobs: other processes are no ranks");
    int status = pids_take(options, &list, &count), code = 0;
    if (!count)
        return status;
    if (omis_init(NULL, NULL, NULL, NULL) != OMIS_OK)
        code = err_set(&err, -ENOTCONN, "no monitor can be asked: %s", client_error());
    else
        code = snapshot_ask_pids(&snapshot, list, count, wanted, &err);
    omis_finalize();
    if (code < 0) {
        cli_log_error(&err);
        status = EXIT_ERRORS;
    } else {
        int printed = snapshot_print(&snapshot, json);
        status = printed ? printed : status;
    }
    snapshot_done(&snapshot);
    return status;
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
    bool has;
    struct err err = {0};
    if (wanted.ranks && snapshot_set_has(wanted.ranks, 0, &has, &err) < 0)
        return cli_usage_error(options, "%s", err.text);
    return pids_are_meant(options) ? snapshot_pids(options, &wanted, json)
                                   : snapshot_job(options->words[0], &wanted, json);
}
