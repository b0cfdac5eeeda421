/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/record/model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/data/grow.h"
#include "base/data/hash.h"
#include "jobdir/record/kinds.h"
#include "jobdir/record/mirror.h"
#include "jobdir/record/spool.h"
#include "jobdir/text/fields.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"

int job_model_init(struct job_model *model, size_t keep_limit)
{
    *model = (struct job_model){.keep_limit = keep_limit};
    int code = kept_init(&model->warnings) < 0 || kept_init(&model->gaps) < 0 ? -ENOMEM : 0;
    model->crashes = json_array();
    model->pauses = json_array();
    model->firings = json_array();
    layers_init(&model->layers);
    return model->crashes && model->pauses ? code : -ENOMEM;
}

static void process_done(const struct job_process *process)
{
    json_decref(process->argv);
    json_decref(process->cwd);
}

void job_model_done(struct job_model *model)
{
    HASH_FREE_ALL(model->alive, process_done(each));
    for (size_t i = 0; i < model->ended_count; i++)
        process_done(&model->ended[i]);
    HASH_FREE_ALL(model->whys);
    HASH_FREE_ALL(model->commands);
    free(model->ended);
    json_decref(model->node);
    json_decref(model->node_sample);
    json_decref(model->stall);
    json_decref(model->standing);
    json_decref(model->request);
    json_decref(model->end);
    json_decref(model->firings);
    json_decref(model->rules);
    json_decref(model->files);
    json_decref(model->syscalls);
    kept_done(&model->warnings);
    kept_done(&model->gaps);
    json_decref(model->crashes);
    json_decref(model->pauses);
    series_done(&model->processes_series);
    series_done(&model->rss_series);
    series_done(&model->cpu_series);
    layers_done(&model->layers);
    *model = (struct job_model){0};
}

static const struct process_bytes unknown_bytes = {-1, -1, -1, -1};

static void add_known(int64_t *sum, int64_t more)
{
    if (more >= 0)
        *sum = (*sum > 0 ? *sum : 0) + more;
}

void job_bytes_add(struct process_bytes *sum, const struct process_bytes *more)
{
    add_known(&sum->read, more->read);
    add_known(&sum->written, more->written);
    add_known(&sum->disk_read, more->disk_read);
    add_known(&sum->disk_written, more->disk_written);
}

static void count_command(struct job_model *model, const struct job_process *process)
{
    struct job_command *command;
    const char *name = process->name;
    HASH_FIND_STR(model->commands, name, command);
    if (!command && HASH_COUNT(model->commands) >= JOB_COMMANDS) {
        name = "(others)";
        HASH_FIND_STR(model->commands, name, command);
    }
    if (!command) {
        command = calloc(1, sizeof *command);
        if (!command)
            return;
        snprintf(command->name, sizeof command->name, "%s", name);
        command->bytes = unknown_bytes;
        HASH_ADD_STR(model->commands, name, command);
    }
    command->count++;
    command->cpu_ns += process->cpu_ns;
    job_bytes_add(&command->bytes, &process->bytes);
    command->bytes_sampled |= process->bytes_sampled;
    command->peak_rss = job_most(command->peak_rss, process->peak_rss);
}

/* Adopts what the process has. */
static void keep_ended(struct job_model *model, const struct job_process *process)
{
    count_command(model, process);
    model->unknown += process->status == JOB_STATUS_UNKNOWN;
    model->failed += process->status != JOB_STATUS_UNKNOWN && process->status != 0;
    model->peak_rss = job_most(model->peak_rss, process->peak_rss);
    if (model->ended_count >= model->keep_limit) {
        model->ended_omitted++;
        process_done(process);
        return;
    }
    if (!GROW(model->ended, model->ended_count, model->ended_room)) {
        model->ended_omitted++;
        process_done(process);
        return;
    }
    model->ended[model->ended_count++] = *process;
}

/* The process left without a record of its end (records were lost, or its pid is used again). */
static void end_unseen(struct job_model *model, struct job_process *process)
{
    HASH_DEL(model->alive, process);
    process->end = process->sampled;
    keep_ended(model, process);
    free(process);
}

static bool same_start(double a, double b)
{
    return a - b < 0.05 && b - a < 0.05; /* the kernel tells start times in hundredths of a second */
}

static struct job_process *find_alive(struct job_model *model, pid_t pid)
{
    struct job_process *process;
    HASH_FIND_INT(model->alive, &pid, process);
    return process;
}

/* A new name without a command is of a program of which nothing else is known. */
static void apply_command(struct job_process *process, const struct command_fields *command, bool renamed)
{
    if (!command->argv && !renamed)
        return;
    process_done(process);
    process->argv = command->argv ? json_incref(command->argv) : NULL;
    process->cwd = command->argv && command->cwd ? json_string(command->cwd) : NULL;
    process->argv_cut = command->argv_cut;
}

static struct job_process *apply_process(struct job_model *model, const struct process_record *record)
{
    struct job_process *process = find_alive(model, record->pid);
    if (process && !same_start(process->start, record->start)) {
        end_unseen(model, process);
        process = NULL;
    }
    if (!process) {
        process = calloc(1, sizeof *process);
        if (!process)
            return NULL;
        layers_forget(&model->layers, record->pid, record->start);
        *process = (struct job_process){.pid = record->pid,
                                        .node = model->part,
                                        .start = record->start,
                                        .end = -1,
                                        .state = '?',
                                        .status = JOB_STATUS_UNKNOWN,
                                        .sampled = record->start,
                                        .threads = 1,
                                        .peak_threads = 1,
                                        .bytes = unknown_bytes,
                                        .alone = true};
        struct job_process *parent = find_alive(model, record->ppid);
        if (parent)
            parent->alone = false;
        HASH_ADD_INT(model->alive, pid, process);
    }
    process->ppid = record->ppid;
    char before[JOB_NAME_SIZE];
    memcpy(before, process->name, sizeof before);
    snprintf(process->name, sizeof process->name, "%s", record->name ? record->name : "?");
    apply_command(process, &record->command, strcmp(before, process->name) != 0);
    return process;
}

static const char *const sources[] = {
    [JOB_STATUS_BY_EVENT] = "event", [JOB_STATUS_BY_PIDFD] = "pidfd", [JOB_STATUS_BY_WAIT] = "wait"};

const char *job_status_source_name(enum job_status_source source)
{
    return sources[source];
}

static enum job_status_source source_of(const char *text)
{
    for (int i = JOB_STATUS_BY_EVENT; text && i <= JOB_STATUS_BY_WAIT; i++)
        if (strcmp(sources[i], text) == 0)
            return (enum job_status_source)i;
    return JOB_STATUS_BY_NOBODY;
}

static const char *keep_why(struct job_model *model, const char *text)
{
    struct job_why *why;
    if (!text)
        return NULL;
    HASH_FIND_STR(model->whys, text, why);
    if (!why && HASH_COUNT(model->whys) < JOB_WHYS && (why = calloc(1, sizeof *why + strlen(text) + 1))) {
        memcpy(why->text, text, strlen(text) + 1);
        HASH_ADD_STR(model->whys, text, why);
    }
    if (!why)
        return NULL;
    why->count++;
    return why->text;
}

/* As it was told at its end; else as it was seen last, if no children that it waited for are in that. */
static void apply_bytes(const struct job_model *model, struct job_process *process, const struct process_bytes *told)
{
    const struct layer_place *place = layers_place(&model->layers, process->pid);
    process->bytes = *told;
    process->bytes_sampled = told->read < 0 && process->alone && place && place->read_bytes >= 0;
    if (process->bytes_sampled)
        process->bytes = (struct process_bytes){place->read_bytes, place->written_bytes, -1, -1};
}

static void apply_process_end(struct job_model *model, const struct process_end_record *record)
{
    struct job_process *process = apply_process(model, &record->process);
    if (!process)
        return;
    process->end = record->end;
    layers_process_ended(&model->layers, process->pid, process->end);
    process->cpu_ns = job_most(process->cpu_ns, record->cpu_ns);
    process->peak_rss = job_most(process->peak_rss, record->peak_rss);
    process->peak_threads = job_most(process->peak_threads, record->threads);
    apply_bytes(model, process, &record->bytes);
    process->status = record->status;
    process->source = source_of(record->source);
    process->why = process->status == JOB_STATUS_UNKNOWN ? keep_why(model, record->why) : NULL;
    process->state = 'X';
    HASH_DEL(model->alive, process);
    keep_ended(model, process);
    free(process);
}

/* It was none of the job's. */
static void apply_withdrawn(struct job_model *model, const struct withdrawn_record *record)
{
    struct job_process *process = find_alive(model, record->pid);
    if (!process)
        return;
    HASH_DEL(model->alive, process);
    process_done(process);
    free(process);
    model->started_total -= model->started_total > 0;
    model->peak_processes = record->peak_processes;
    model->peak_threads = record->peak_threads;
}

static uint64_t row_count(const json_t *row, size_t index)
{
    json_int_t number = json_integer_value(json_array_get(row, index));
    return number > 0 ? (uint64_t)number : 0;
}

static void apply_alive_row(struct job_model *model, const json_t *row, double seconds)
{
    struct job_process *process = find_alive(model, (pid_t)row_count(row, 0));
    if (!process)
        return;
    const char *state = json_string_value(json_array_get(row, 1));
    uint64_t cpu_ns = row_count(row, 4);
    double passed = seconds - process->sampled;
    if (passed >= RATE_SECONDS)
        process->cpu_share = cpu_ns > process->cpu_ns ? (double)(cpu_ns - process->cpu_ns) / 1e9 / passed : 0;
    process->state = state && *state ? *state : '?';
    process->rss = row_count(row, 2);
    process->peak_rss = job_most(job_most(process->peak_rss, row_count(row, 3)), process->rss);
    process->cpu_ns = job_most(process->cpu_ns, cpu_ns);
    process->threads = row_count(row, 5);
    process->peak_threads = job_most(process->peak_threads, process->threads);
    process->sampled = seconds;
    model->peak_rss = job_most(model->peak_rss, process->peak_rss);
}

/* Processors that were busy. Samples are recorded a little after they were taken, and the kernel counts in ticks: so
 * the rate may come out as more than there can have been. */
static double processors_busy(const struct job_model *model, double cpu_seconds, double passed)
{
    double share = cpu_seconds / passed, cpus = (double)member_count(model->node, "cpus"),
           threads = (double)model->peak_threads;
    share = cpus > 0 && share > cpus ? cpus : share;
    return threads > 0 && share > threads ? threads : share;
}

static void apply_tree(struct job_model *model, const struct tree_fields *tree, double seconds)
{
    double passed = seconds - model->rated_seconds;
    model->processes = tree->processes;
    model->threads = tree->threads;
    model->peak_threads = job_most(model->peak_threads, job_most(model->threads, tree->peak_threads));
    if (passed >= RATE_SECONDS) {
        double used = tree->cpu_ns > model->rated_cpu_ns ? (double)(tree->cpu_ns - model->rated_cpu_ns) / 1e9 : 0;
        model->cpu_share = processors_busy(model, used, passed);
        if (tree->processes || model->rated_seconds <= 0) /* what ends uses some for that */
            model->alive_share = model->cpu_share;
        series_add_from(&model->cpu_series, model->rated_seconds, seconds, model->cpu_share);
        model->rated_seconds = seconds;
        model->rated_cpu_ns = tree->cpu_ns;
    } else {
        series_add_from(&model->cpu_series, seconds, seconds, -1); /* as far as the others go */
    }
    model->rss = tree->rss;
    trend_add(&model->growth, (uint64_t)(seconds > 0 ? seconds * 1e9 : 0), (double)model->rss);
    model->cpu_ns = job_most(model->cpu_ns, tree->cpu_ns);
    model->started_total = job_most(model->started_total, tree->started);
    model->ended_total = job_most(model->ended_total, tree->ended);
    model->peak_processes = job_most(model->peak_processes, job_most(model->processes, tree->peak_processes));
    model->peak_tree_rss = job_most(model->peak_tree_rss, model->rss);
    series_add(&model->processes_series, seconds, (double)model->processes);
    series_add(&model->rss_series, seconds, (double)model->rss);
}

static void apply_memory(struct job_model *model, const struct memory_record *record)
{
    model->memory = *record;
    model->measured_rss = job_most(model->measured_rss, record->rss);
    if (record->pss >= model->peak_memory.pss)
        model->peak_memory = *record;
}

int job_status_signal(int status)
{
    return status != JOB_STATUS_UNKNOWN && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

const struct job_process *job_model_ended(const struct job_model *model, pid_t pid)
{
    for (size_t i = model->ended_count; i-- > 0;)
        if (model->ended[i].pid == pid)
            return &model->ended[i];
    return NULL;
}

uint64_t job_model_memory(const struct job_model *model)
{
    const struct memory_record *last = &model->memory;
    return last->rss ? (uint64_t)((double)model->rss * (double)last->pss / (double)last->rss) : model->rss;
}

uint64_t job_model_peak_memory(const struct job_model *model, uint64_t largest)
{
    uint64_t most = job_most(model->peak_memory.pss, largest), all = job_most(model->peak_tree_rss, largest);
    if (!model->peak_memory.pss)
        return 0;
    if (all > model->measured_rss + model->measured_rss / 4)
        most += all - model->measured_rss;
    return most < all ? most : all;
}

/* "node" in records of the first versions. */
static json_t *system_of(const json_t *record)
{
    json_t *system = json_object_get(record, "system");
    return system ? system : json_object_get(record, "node");
}

static void apply_sample(struct job_model *model, const struct sample_record *record, json_t *system, double seconds)
{
    size_t index;
    json_t *row;
    model->samples++;
    json_array_foreach(record->alive, index, row) apply_alive_row(model, row, seconds);
    /* the rows name only what changed: the others used no processor since */
    struct job_process *process, *next;
    HASH_ITER(hh, model->alive, process, next)
    if (process->sampled < seconds) {
        process->cpu_share = 0;
        process->sampled = seconds;
    }
    apply_tree(model, &record->tree, seconds);
    if (json_is_object(system)) {
        json_decref(model->node_sample);
        model->node_sample = json_incref(system);
    }
}

static bool means_no(const char *value)
{
    static const char *const words[] = {"no", "off", "0", "false", NULL};
    return text_is_one(value, words);
}

/* A job that was started with tracing off has a pause only once that is changed. */
static void apply_setting(struct job_model *model, const struct setting_record *record, double seconds)
{
    bool before = model->switched_off || model->trace_off;
    if (!record->key || !record->value || !record->taken)
        return;
    if (strcmp(record->key, "on") == 0)
        model->switched_off = means_no(record->value);
    else if (strcmp(record->key, "trace") == 0)
        model->trace_off = strcmp(record->value, "off") == 0;
    bool after = model->switched_off || model->trace_off;
    json_t *last = json_array_get(model->pauses, json_array_size(model->pauses) - 1);
    if (before == after)
        return;
    if (after)
        json_array_append_new(model->pauses, json_pack("{s:f, s:n}", "from", seconds, "to"));
    else if (last && json_is_null(json_object_get(last, "to")))
        json_object_set_new(last, "to", json_real(seconds));
    else
        json_array_append_new(model->pauses, json_pack("{s:f, s:f}", "from", 0.0, "to", seconds));
}

static void keep_last(json_t **slot, const json_t *record)
{
    json_decref(*slot);
    *slot = json_incref((json_t *)record);
}

static void apply_seq(struct job_model *model, const json_t *record)
{
    if (!json_object_get(record, "seq"))
        return;
    uint64_t number = member_count(record, "seq");
    if (number > model->next_seq)
        model->missing_records += number - model->next_seq;
    model->next_seq = number + 1;
}

/* A record of its kind, as it is read. */
union row {
#define MEMBER(name) struct name##_record name;
    RECORD_KINDS(MEMBER)
#undef MEMBER
};

void job_model_apply(struct job_model *model, const json_t *record)
{
    json_t *keep = (json_t *)record;
    double seconds = member_number(record, "t");
    enum record_type type = record_type(record);
    union row row;
    if (!json_object_get(record, "type"))
        return;
    apply_seq(model, record);
    model->records++;
    if (seconds > model->last_seconds)
        model->last_seconds = seconds;
    if (type == RECORD_TYPES)
        return;
    record_read(record, type, &row);
    switch (type) {
    case RECORD_sample:
        apply_sample(model, &row.sample, system_of(record), seconds);
        return;
    case RECORD_memory:
        apply_memory(model, &row.memory);
        return;
    case RECORD_process:
        apply_process(model, &row.process);
        return;
    case RECORD_process_end:
        apply_process_end(model, &row.process_end);
        return;
    case RECORD_withdrawn:
        apply_withdrawn(model, &row.withdrawn);
        return;
    case RECORD_setting:
        apply_setting(model, &row.setting, seconds);
        return;
    case RECORD_tracing: {
        const char *trace = member_text(row.tracing.settings, "trace");
        model->trace_off = strcmp(trace, "off") == 0;
        return;
    }
    case RECORD_method:
        model->singly = row.method.singly;
        snprintf(model->reason, sizeof model->reason, "%s", row.method.reason ? row.method.reason : "");
        return;
    case RECORD_node:
        keep_last(&model->node, record);
        return;
    case RECORD_request:
        if (row.request.status && strcmp(row.request.status, "OMIS_OK") == 0) /* not how many were left out */
            keep_last(&model->request, record);
        return;
    case RECORD_stall:
        keep_last(&model->stall, record);
        return;
    case RECORD_standing:
        keep_last(&model->standing, row.standing.still ? record : NULL);
        return;
    case RECORD_files:
        keep_last(&model->files, record);
        return;
    case RECORD_syscalls:
        keep_last(&model->syscalls, record);
        return;
    case RECORD_rules:
        keep_last(&model->rules, record);
        return;
    case RECORD_end:
        keep_last(&model->end, record);
        layers_over(&model->layers);
        return;
    case RECORD_warning:
        kept_add(&model->warnings, record);
        return;
    case RECORD_gap:
        kept_add(&model->gaps, record);
        return;
    case RECORD_crash:
        json_array_append(model->crashes, keep);
        return;
    case RECORD_rule:
        if (json_array_size(model->firings) < JOB_FIRINGS)
            json_array_append(model->firings, keep);
        return;
    case RECORD_health:
    case RECORD_script_line:
    case RECORD_command_failed:
    case RECORD_script_end:
    case RECORD_script_trap:
    case RECORD_script_tested:
    case RECORD_script_kills:
    case RECORD_python_stack:
    case RECORD_python_exception:
    case RECORD_python_calls:
    case RECORD_functions:
    case RECORD_log:
    case RECORD_log_folded:
    case RECORD_log_file:
    case RECORD_log_last:
    case RECORD_progress:
    case RECORD_metric:
        layers_apply(&model->layers, type, record);
        return;
    case RECORD_spool:
    case RECORD_script:
    case RECORD_untraced:
    case RECORD_TYPES:
        return;
    }
}

static void add_problem(json_t *problems, const char *format, uint64_t number)
{
    char text[160];
    snprintf(text, sizeof text, format, (unsigned long long)number);
    json_array_append_new(problems, json_string(text));
}

int job_model_read(struct job_model *model, const char *path, json_t *problems, struct err *err)
{
    struct spool_reader reader;
    struct err here = {0};
    int code = spool_reader_open(&reader, path, &here);
    if (code == -EPROTO) {
        spool_reader_close(&reader);
        return err_set(err, code, "%s", here.text);
    }
    if (code < 0) {
        json_array_append_new(problems, json_string(here.text));
        return 0;
    }
    for (json_t *record; (record = spool_reader_next(&reader));) {
        job_model_apply(model, record);
        json_decref(record);
    }
    if (!reader.header_seen) {
        json_t *remote = mirror_read_remote(path); /* a mirror says itself what it could not get */
        if (!remote)
            json_array_append_new(problems, json_string("the spool has no header: it was cut off or damaged"));
        json_decref(remote);
    }
    if (reader.unread)
        add_problem(problems, "%llu lines of the spool cannot be read", reader.unread);
    if (spool_reader_rest(&reader))
        add_problem(problems, "the last record of the spool is cut off (%llu bytes)", spool_reader_rest(&reader));
    if (model->missing_records)
        add_problem(problems, "%llu records are missing in the spool", model->missing_records);
    spool_reader_close(&reader);
    return 0;
}

/* ---- records of which a job may have any number ---- */

const struct field kept_omitted_fields[] = {
    {"kind", FIELD_TEXT, .about = "their note, or where they have none their kind"}, {"count", FIELD_COUNT}, {0}};

int kept_init(struct kept *kept)
{
    *kept = (struct kept){.records = json_array()};
    return kept->records ? 0 : -ENOMEM;
}

void kept_done(struct kept *kept)
{
    HASH_FREE_ALL(kept->kinds);
    json_decref(kept->records);
    *kept = (struct kept){0};
}

static const char *kind_name(const json_t *record)
{
    const char *note = json_string_value(json_object_get(record, "note"));
    const char *kind = note ? note : json_string_value(json_object_get(record, "kind"));
    return kind ? kind : "";
}

static struct kept_kind *kind_of(struct kept *kept, const char *name)
{
    struct kept_kind *kind;
    HASH_FIND_STR(kept->kinds, name, kind);
    if (kind)
        return kind;
    if (HASH_COUNT(kept->kinds) >= KEPT_KINDS) {
        name = "";
        HASH_FIND_STR(kept->kinds, name, kind);
    }
    size_t size = strlen(name) + 1;
    kind = kind ? kind : calloc(1, sizeof *kind + size);
    if (kind && !kind->name[0] && !kind->total) {
        memcpy(kind->name, name, size);
        HASH_ADD_STR(kept->kinds, name, kind);
    }
    return kind;
}

/* Leaves of a kind the first and the last KEPT_EACH. Done once for KEPT_EACH records, for it looks at all. */
static void thin_out(struct kept *kept, const struct kept_kind *kind)
{
    json_t *left = json_array(), *record;
    size_t index, seen = 0;
    json_array_foreach(kept->records, index, record)
    {
        struct kept_kind *its;
        HASH_FIND_STR(kept->kinds, kind_name(record), its);
        bool is_one = its ? its == kind : !kind->name[0];
        if (is_one && seen++ >= KEPT_EACH && seen <= kind->kept - KEPT_EACH)
            continue;
        json_array_append(left, record);
    }
    json_array_clear(kept->records); /* others have borrowed the array */
    json_array_extend(kept->records, left);
    json_decref(left);
}

void kept_add(struct kept *kept, const json_t *record)
{
    struct kept_kind *kind = kind_of(kept, kind_name(record));
    kept->total++;
    if (!kind)
        return; /* no memory: only counted */
    kind->total++;
    json_array_append(kept->records, (json_t *)record);
    if (++kind->kept < 3 * KEPT_EACH)
        return;
    thin_out(kept, kind);
    kind->kept = 2 * KEPT_EACH;
}

json_t *kept_omitted(const struct kept *kept)
{
    json_t *list = json_array();
    for (const struct kept_kind *kind = kept->kinds; kind; kind = kind->hh.next)
        if (kind->total > kind->kept)
            json_array_append_new(
                list, json_pack("{s:s, s:I}", "kind", kind->name, "count", (json_int_t)(kind->total - kind->kept)));
    return list;
}
