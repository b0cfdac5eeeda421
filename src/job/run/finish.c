/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a job: the last of its traces, the result, warnings, job.json, report.txt and the summary. */
#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/log.h"
#include "job/health/health.h"
#include "job/launch/program.h"
#include "job/logs/logs.h"
#include "job/places/place_names.h"
#include "job/run/job.h"
#include "job/run/kernel_log.h"
#include "job/run/part.h"
#include "job/run/reason.h"
#include "job/scripts/scripts.h"
#include "job/watch/functions.h"
#include "jobdir/mpi/look.h"
#include "jobdir/report/report.h"
#include "jobdir/text/fields.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"
#include "symbols/index/index.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the observer of a job looks at: the one table. They end in this order: what may take longest is last. */
const struct observe_source *const observe_sources[] = {
    &health_source, &python_inside,  &metrics_source, &logs_source,
    &python_source, &scripts_source, &profile_source, NULL,
};

enum {
    END_MONITORS = 3, /* tried one after the other if they die */
};

/* The number of ended processes whose records are not all on disk. The job may know of an end before the traces do: no
 * more processes live there than here. */
static uint64_t traces_unfinished(const struct job *job)
{
    const struct trace_info *traces = &job->watch.traces;
    uint64_t alive = HASH_COUNT(job->recorder.model.alive);
    return traces->draining + (job->seen_to_end && traces->live > alive ? traces->live - alive : 0);
}

/* Waits for a while until the records of ended processes are on disk. */
static void wait_for_traces(struct job *job)
{
    struct watch *watch = &job->watch;
    uint64_t start = clock_now_ns(), now, advanced = start, least = UINT64_MAX;
    bool flush = job->options->mpi != RUN_MPI_OFF, answered;
    int wait_ms = 1;
    do {
        if (traces_unfinished(job)) { /* mostly they are already coming */
            wait_fd(-1, 0, wait_ms);
            wait_ms = 2 * wait_ms < END_TRACES_POLL_MS ? 2 * wait_ms : END_TRACES_POLL_MS;
        }
        watch_ask_traces(watch, flush);
        flush = false;
        answered = watch_wait(watch, END_ANSWER_MS);
        now = clock_now_ns();
        if (traces_unfinished(job) < least) {
            least = traces_unfinished(job);
            advanced = now;
        }
    } while (answered && traces_unfinished(job) && now - advanced < END_WAIT_MS * UINT64_C(1000000) &&
             now - start < END_MOST_MS * UINT64_C(1000000));
    if (watch->traces.draining)
        recorder_note(&job->recorder, NOTE(traces_incomplete, .processes = watch->traces.draining,
                                           .seconds = (double)(now - start) / NS_PER_SECOND));
}

/* Has the processes' records brought to disk. If the monitor has died, before or meanwhile, another one does that. */
static void collect_traces(struct job *job)
{
    struct watch *watch = &job->watch;
    struct err err = {0};
    bool again = false;
    for (unsigned monitors = 0; monitors < END_MONITORS; monitors++) {
        if (watch->phase == WATCH_OFF && watch->was_up && watch_connect(watch, &err) == 0) {
            watch->phase = WATCH_IDLE;
            again = true;
        }
        if (watch->phase == WATCH_IDLE)
            wait_for_traces(job);
        if (watch->phase != WATCH_OFF)
            break;
    }
    if (again)
        watch_close(watch); /* it cannot follow an ended job */
}

void finish_watch(struct job *job)
{
    struct watch *watch = &job->watch;
    if (watch->phase != WATCH_OFF && watch->phase != WATCH_IDLE)
        watch_wait(watch, END_ANSWER_MS);
    if (job->preload.library[0])
        collect_traces(job);
    uint64_t until = clock_now_ns() + END_WAIT_MS * UINT64_C(1000000);
    uint64_t lost_until = clock_now_ns() + END_LOST_MS * UINT64_C(1000000);
    uint64_t propagation_until = clock_now_ns() + END_PROPAGATED_MS * UINT64_C(1000000);
    bool more = !watch->traces.known || watch->traces.live || watch->traces.draining;
    while (watch->phase == WATCH_IDLE) { /* again if many ended at once: the kernel reports one after the other */
        watch_tick(watch);
        job->seen_to_end = watch_wait(watch, END_ANSWER_MS);
        bool follows = job->has_parts && HASH_COUNT(job->recorder.model.alive) && clock_now_ns() < propagation_until;
        bool hopeless = watch->lost && clock_now_ns() > lost_until; /* the records of their ends may be lost */
        if (!job->seen_to_end || (!watch->coming && !follows) || hopeless || clock_now_ns() > until)
            break;
        more = true;
        wait_fd(-1, 0, END_COMING_POLL_MS);
    }
    if (more && watch->phase == WATCH_IDLE && job->preload.library[0] && job->seen_to_end && !watch->traces.draining)
        wait_for_traces(job); /* for those whose ends were not known before */
}

enum {
    REREAD_BYTES = 8 << 20,
    REASON_COLUMNS = 250, /* of up to 4 bytes */
};

/* The command's end as its parent knows it: without a monitor, or if the monitor did not see it. */
static void put_command(struct job *job)
{
    struct job_process *process;
    struct job_model *model = &job->recorder.model;
    pid_t pid = job->launch.pid;
    bool unseen = model->started_total == 0 && model->samples == 0;
    HASH_FIND_INT(model->alive, &pid, process);
    if (!process && !unseen)
        return;
    double end = recorder_seconds(&job->recorder, job->end_ns);
    char name[JOB_NAME_SIZE]; /* a new one has as much of it as the kernel keeps */
    snprintf(name, process ? sizeof name : 16, "%s", process ? process->name : text_base(job->options->command[0]));
    const struct process_end_record ended = {
        .process = {.pid = pid, .ppid = getpid(), .start = process ? process->start : 0, .name = name},
        .end = end,
        .cpu_ns = process ? process->cpu_ns : job->cpu_ns,
        .threads = process ? process->peak_threads : 1,
        .peak_rss = process ? process->peak_rss : job->largest_rss,
        .status = job->status,
        .source = job_status_source_name(JOB_STATUS_BY_WAIT)};
    recorder_put(&job->recorder, RECORD_process_end, &ended);
    recorder_ended(&job->recorder, &ended, job->options->command[0], job->cwd);
}

/* The kernel's peak of the largest process also counts scry run's own size, and a little more, as that of the forked
 * child. So it holds only if nothing larger was sampled, or nothing at all. */
static uint64_t peak_rss(const struct job *job)
{
    uint64_t sampled = job->recorder.model.peak_rss;
    uint64_t inherited = job->fork_rss + job->fork_rss / 4 + (1 << 20);
    return job->largest_rss > inherited || sampled == 0 ? job_most(job->largest_rss, sampled) : sampled;
}

/* Processor time: that of processes that were waited for, as time(1) has it, and of those that live on. Children of
 * parents that ignore SIGCHLD are in neither: if the monitor saw clearly more, its figure holds. It is the second
 * choice because the kernel's task clock also runs while a hypervisor has the processor. */
static uint64_t cpu_ns(const struct job *job)
{
    uint64_t waited = job->cpu_ns, seen = job->recorder.model.cpu_ns;
    for (const struct job_process *process = job->recorder.model.alive; process; process = process->hh.next)
        waited += process->cpu_ns;
    return seen > waited + waited / 10 + NS_PER_SECOND / 20 ? seen : waited;
}

static void set_result(struct job *job, int exit_code)
{
    const struct job_model *model = &job->recorder.model;
    uint64_t peak = peak_rss(job), alive = HASH_COUNT(model->alive);
    job->info.ended = true;
    job->info.result = (struct job_result){
        .started = job->exec_code == 0,
        .exit_code = exit_code,
        .signal = job->exec_code == 0 && WIFSIGNALED(job->status) ? WTERMSIG(job->status) : 0,
        .core_dumped = WIFSIGNALED(job->status) && WCOREDUMP(job->status),
        .wall_seconds = recorder_seconds(&job->recorder, job->end_ns),
        .cpu_seconds = (double)cpu_ns(job) / NS_PER_SECOND,
        .peak_rss_bytes = peak,
        .peak_tree_rss_bytes = job_most(peak, model->peak_tree_rss),
        .peak_tree_pss_bytes = job_model_peak_memory(model, peak),
        .io = job->io,
        .processes = job_most(job_most(model->started_total, model->ended_omitted + model->ended_count + alive),
                              job->exec_code == 0),
        .processes_at_once = job_most(model->peak_processes, job->exec_code == 0),
        .threads_at_once = job_most(model->peak_threads, job->exec_code == 0),
        .left_running = job->seen_to_end ? alive : 0,
    };
}

static bool was_killed_for_memory(const struct job *job, pid_t pid)
{
    struct logged logged;
    const struct logged_thread thread = {.tid = pid};
    return logged_find(&logged, &thread, 1, job->recorder.start_ns, UINT64_MAX) && logged.signo == SIGKILL;
}

/* Why the command got the signal that killed it, or could not be started. */
static void put_reason(struct job *job)
{
    struct buf text = BUF_INIT;
    int signo = job->info.result.signal;
    size_t index;
    json_t *crash;
    json_array_foreach(job->recorder.model.crashes, index, crash)
    {
        const char *reason = json_string_value(json_object_get(crash, "reason"));
        if (reason && signo && json_integer_value(json_object_get(crash, "pid")) == job->launch.pid && !text.len)
            buf_puts(&text, reason);
    }
    if (job->exec_code < 0)
        program_explain(&text, job->options->command[0], job->exec_code);
    if (!text.len && !reason_of_limits(&text, &job->limits, signo) && signo == SIGKILL &&
        was_killed_for_memory(job, job->launch.pid))
        buf_puts(&text, "out of memory");
    if (text.data && !text.failed)
        snprintf(job->reason, sizeof job->reason, "%.*s", (int)text_fit(text.data, text.len, REASON_COLUMNS),
                 text.data);
    job->info.result.reason = job->reason;
    buf_done(&text);
}

/* So many kills were warned of when they happened. */
static uint64_t kills_warned(const struct job *job)
{
    uint64_t most = 0;
    size_t i;
    json_t *warning;
    json_array_foreach(job->recorder.model.warnings.records, i, warning)
    {
        json_t *count = json_object_get(json_object_get(warning, "fields"), "processes");
        uint64_t number = note_json_kind(warning) == NOTE_out_of_memory ? (uint64_t)json_integer_value(count) : 0;
        most = number > most ? number : most;
    }
    return most;
}

/* Those of its last killed processes that the kernel says it has killed: also where they were in a control group that the job has made. */
static uint64_t kills_logged(const struct job *job)
{
    uint64_t kills = 0;
    for (size_t i = 0; i < job->killed_count && i < JOB_KILLED; i++)
        kills += was_killed_for_memory(job, job->killed[i]);
    return kills;
}

static void warn_memory(struct job *job)
{
    const struct oom_counts *now = &job->oom_after, *before = &job->oom_before;
    uint64_t group = now->group > before->group && before->group >= 0 ? (uint64_t)(now->group - before->group) : 0;
    uint64_t node = now->node > before->node && before->node >= 0 ? (uint64_t)(now->node - before->node) : 0;
    group = group ? group : kills_logged(job);
    bool killed = job->info.result.signal == SIGKILL || job->info.result.exit_code == 128 + SIGKILL;
    if ((group || (node && killed)) && kills_warned(job) >= (group ? group : node))
        return;
    if (group || (node && killed))
        recorder_note(&job->recorder, NOTE(out_of_memory, .processes = group ? group : node, .own_group = group != 0));
    else if (killed && !*job->reason)
        recorder_note(&job->recorder, NOTE(killed));
}

static bool is_mpi_launcher(const char *command)
{
    static const char *const names[] = {"mpirun", "mpiexec", "orterun", "prterun"};
    const char *name = text_base(command);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t length = strlen(names[i]);
        if (strncmp(name, names[i], length) == 0 && (name[length] == '\0' || name[length] == '.'))
            return true;
    }
    return false;
}

/* What a command leaves that ended by itself, it may have meant to leave. Parents are first. */
static void warn_left(struct job *job)
{
    enum { SHOWN = 4 };
    _cleanup_(buf_done) struct buf names = BUF_INIT;
    pid_t after = 0;
    uint64_t left = job->info.result.left_running, shown = 0;
    if (!left || !job->info.result.signal)
        return;
    while (shown < left && shown < SHOWN) {
        const struct job_process *next = NULL;
        for (const struct job_process *each = job->recorder.model.alive; each; each = each->hh.next)
            if (each->pid > after && (!next || each->pid < next->pid))
                next = each;
        if (!next)
            break;
        after = next->pid;
        buf_puts(&names, !shown++ ? "" : shown == left ? " and " : ", ");
        buf_printf(&names, "%s (pid %d)", next->name, (int)next->pid);
    }
    if (shown < left)
        buf_printf(&names, " and %" PRIu64 " more", left - shown);
    if (names.len && !names.failed)
        recorder_note(&job->recorder, NOTE(left_running, .processes = left, .names = names.data));
}

/* Launchers have such statuses of their own: Open MPI's, where a program is missing on a node, is not SIGILL. */
static void warn_hidden_signal(struct job *job)
{
    int signo = job->info.result.exit_code - 128;
    char name[32];
    if (job->info.result.signal || json_array_size(job->recorder.model.crashes) || signo < 1 || signo > SIGRTMIN ||
        is_mpi_launcher(job->options->command[0]))
        return;
    recorder_note(&job->recorder, NOTE(shell_signal, .status = (uint64_t)job->info.result.exit_code,
                                       .signal = text_signal(signo, name, sizeof name)));
}

static bool has_traces(const struct job *job)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/trace", job->dir);
    return access(path, F_OK) == 0;
}

static void note_all(struct recorder *recorder, const struct note *notes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        recorder_note(recorder, notes[i]);
}

/* Processes were not traced, and a note says so. */
static bool were_refused(const struct trace_info *traces)
{
    return tracing_note(traces, NOTE_refused) || tracing_note(traces, NOTE_late) ||
           tracing_note(traces, NOTE_socket_removed);
}

/* Warns if tracing was requested and nothing was recorded, or if rules were lost with a monitor. */
static void warn_traces(struct job *job)
{
    const struct watch *watch = &job->watch;
    const struct trace_info *traces = &watch->traces;
    bool told = traces->events || traces->problem_count, removed = !has_traces(job);
    bool nothing = removed || (told && !crash_any_traced(job));
    if (traces->events && nothing && job->dir[0])
        recorder_note(&job->recorder,
                      NOTE(traces_removed, .records = traces->events, .directory = job->dir, .emptied = !removed));
    else if (traces->problem_count && nothing) /* the notes include the problems */
        note_all(&job->recorder, traces->problems, traces->problem_count);
    else if (job->options->trace_wanted && !job->options->trace_off && job->preload.library[0] && job->exec_code == 0 &&
             traces->known && nothing && !were_refused(traces))
        recorder_note(&job->recorder, NOTE(no_hooks_called));
    note_all(&job->recorder, traces->notes, traces->note_count);
    if (job->preload.library[0] && (job->preload.wanted || traces->events))
        untraced_note(job->recorder.untraced, &job->recorder, job->cwd);
    if (watch->was_up && watch->rules.err.code)
        recorder_note(&job->recorder, NOTE(rules_lost, .reason = watch->rules.err.text));
    for (size_t i = 0; i < watch->rules.count; i++) {
        const struct rule *rule = &watch->rules.list[i];
        if (rule->failed && !rule->optional)
            recorder_note(&job->recorder, NOTE(rule_failed, .rule = rule->text, .times = rule->failed,
                                               .reason = rule->action_err.text));
    }
    if (job->options->trace_wanted && !job->options->trace_off && !job->dir[0])
        recorder_note(&job->recorder, NOTE(no_trace_directory));
}

static int has_stats(void *ctx, const char *dir)
{
    char path[PATH_MAX + 16];
    (void)ctx;
    snprintf(path, sizeof path, "%s/stats", dir);
    return access(path, F_OK) == 0;
}

static int is_part(void *ctx, const char *dir)
{
    return dir != ctx;
}

/* A launcher also starts what has no MPI. Processes with the agent say whether they have: what remains is one that it did not come to,
 * one on another node, and a program with MPI inside. */
static bool may_hide_mpi(const struct job *job)
{
    if (job->recorder.untraced || job_dirs_each(job->dir, is_part, (void *)job->dir))
        return true;
    for (char *const *word = job->options->command + 1; *word; word++) {
        struct program program;
        program_look(&program, *word);
        if (program.is_elf && elf_has_own_mpi(program.path))
            return true;
    }
    return false;
}

/* Warns if MPI calls were to be counted and no process used MPI, on no node. */
static void warn_mpi(struct job *job)
{
    const struct run_options *options = job->options;
    bool wanted = options->mpi != RUN_MPI_AUTO && options->mpi != RUN_MPI_OFF,
         meant = wanted || (options->mpi == RUN_MPI_AUTO && is_mpi_launcher(options->command[0]));
    if (meant && !job->dir[0])
        recorder_note(&job->recorder, NOTE(mpi_no_directory));
    else if (meant && job->exec_code == 0 && job->preload.library[0] && job->seen_to_end &&
             job_dirs_each(job->dir, has_stats, NULL) == 0 && !tracing_note(&job->watch.traces, NOTE_mpi_no_room) &&
             (wanted || may_hide_mpi(job)))
        recorder_note(&job->recorder, NOTE(mpi_not_seen));
}

static void warn_recording(struct job *job)
{
    struct writer *writer = &job->recorder.writer;
    bool killed = !writer_wait(writer) && job->dir[0] && !writer->late;
    if (writer->late)
        recorder_note(&job->recorder, NOTE(disk_hangs));
    else if (writer->told.stopped || writer_lost(writer) || killed)
        recorder_note(&job->recorder,
                      NOTE(recording_stopped,
                           .reason = killed                 ? "the process that wrote it was killed"
                                     : *writer->told.reason ? writer->told.reason
                                                            : "the disk with the job directory did not answer for long",
                           .records = writer_lost(writer), .traces = has_traces(job)));
}

/* Warns about the difference between the single processes and the kernel's totals. */
static void warn_lost(struct job *job)
{
    struct recorder *recorder = &job->recorder;
    const struct watch *watch = &job->watch;
    uint64_t lost = watch->lost + watch->lost_before;
    if (lost)
        recorder_note(recorder, NOTE(processes_lost, .records = lost));
    if (watch->unseen)
        recorder_note(recorder, NOTE(processes_unlisted, .processes = watch->unseen));
    if (watch->unclocked_ns > UNCLOCKED_LEAST_NS && watch->unclocked_ns > recorder->model.cpu_ns / 100)
        recorder_note(recorder, NOTE(cpu_time_unassigned, .seconds = (double)watch->unclocked_ns / NS_PER_SECOND));
}

static void add_warnings(struct job *job)
{
    struct recorder *recorder = &job->recorder;
    warn_memory(job);
    warn_hidden_signal(job);
    warn_left(job);
    if (!job->recorder.writer.late)
        reason_task_stopped(recorder, job->dir);
    warn_lost(job);
    if (recorder->crashes_omitted)
        recorder_note(recorder, NOTE(more_crashes, .processes = recorder->crashes_omitted));
    if (job->watch.was_up && !job->seen_to_end)
        recorder_note(recorder,
                      NOTE(unwatched_to_end, .from_seconds = recorder_seconds(recorder, job->watch.answered_ns),
                           .reason = job->watch.hangs[0]   ? job->watch.hangs
                                     : job->watch.gap_open ? job->watch.lost_why
                                                           : "the monitor did not answer"));
    warn_traces(job);
    warn_mpi(job);
    if (job->options->crash_stack && job->watch.stacks.err.code)
        recorder_note(recorder, NOTE(no_crash_stacks, .reason = job->watch.stacks.err.text));
    part_note_unwatched(job);
    part_note_logs(job);
    warn_recording(job);
}

static void put_end(struct job *job)
{
    const struct job_result *result = &job->info.result;
    _cleanup_(buf_done) struct buf unexecuted = BUF_INIT;
    if (result->exit_code && job->exec_code == 0)
        reason_of_interpreter(&unexecuted, &job->recorder.model, job->cwd);
    recorder_put(&job->recorder,
                 RECORD(end, .started = result->started, .exit_code = result->exit_code, .signal = result->signal,
                        .reason = result->reason, .core_dumped = result->core_dumped, .unexecuted = unexecuted.data,
                        .address_limit_bytes = job->limits.address_bytes, .data_limit_bytes = job->limits.data_bytes,
                        .wall_seconds = result->wall_seconds, .cpu_seconds = result->cpu_seconds));
}

void finish_put_info(struct job *job, bool now)
{
    _cleanup_(freep) char *text = job_info_text(&job->info);
    if (text)
        writer_replace(&job->recorder.writer, "job.json", text, strlen(text), now);
}

/* Says if that went wrong. 0 or -errno. */
static int note_unwritten(struct job *job)
{
    int code = job->recorder.writer.told.replaced;
    if (code < 0)
        recorder_note(&job->recorder, NOTE(job_json_unwritten, .directory = job->dir, .reason = strerror(-code)));
    return code;
}

/* Writes what `scry report` prints, with every process. Reading a long spool would take too long: then with what is
 * known here. *ret_cause: why it failed, or what its exit status of 0 hides; NULL: not known. */
static void write_report(struct job *job, struct job_report *summary, json_t **ret_cause)
{
    const struct job_report *report = summary;
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    struct job_report read = {0};
    if (job->recorder.writer.told.size_bytes <= REREAD_BYTES && job_report_load(&read, job->dir, NULL) == 0) {
        read.functions = report->functions;
        read.mpi = report->mpi;
        if (read.mpi)
            job_report_find_ends(&read, &read.mpi->set);
        report = &read;
        summary->failed = json_incref(read.failed);
    }
    summary->last = job_report_last(report); /* what was read knows when processes ended */
    json_t *reason = json_object_get(summary->last, "reason");
    *ret_cause = json_is_object(reason) ? json_incref(reason) : job_report_hidden(report);
    read.info.cause = summary->info.cause = *ret_cause;
    job_report_text(&text, report, (struct report_style){.columns = 80});
    read.functions = NULL; /* lent */
    read.mpi = NULL;
    read.info.cause = NULL;
    job_report_done(&read);
    if (!text.failed && text.data)
        writer_replace(&job->recorder.writer, "report.txt", text.data, text.len,
                       false); /* scry report prints it anew */
}

/* Reads the traces, if there are any. */
static void load_functions(const struct job *job, struct job_report *report)
{
    struct job_functions_options options = {.start_ns = job->info.started_ns, .budget_ns = FINISH_TRACES_NS};
    struct err err = {0};
    if (has_traces(job) && job_report_load_functions(report, &options, &err) < 0)
        log_debug("cannot read the traces of %s: %s", job->dir, err.text);
}

/* Looks up the names of call sites now, while the program has not changed. */
static void load_mpi(const struct job *job, struct job_report *report)
{
    struct err err = {0};
    if (!job_dirs_each(job->dir, has_stats, NULL))
        return;
    int code = mpi_names_report(&report->mpi, job->dir, FINISH_MPI_NAMES_MS, &err);
    if (code < 0 && code != -ENOENT)
        log_debug("cannot read the MPI statistics of %s: %s", job->dir, err.text);
    if (code == 0)
        job_report_find_ends(report, &report->mpi->set);
}

static bool says_nothing_was_recorded(enum note_kind kind)
{
    return kind == NOTE_nothing_selected || kind == NOTE_nothing_recorded || kind == NOTE_no_hooks ||
           kind == NOTE_no_hooks_system || kind == NOTE_own_hooks || kind == NOTE_no_hooks_called;
}

/* Those of these notes that say so. Returns how many. */
static size_t put_why_nothing(struct buf *out, const struct job *job, const json_t *notes)
{
    size_t index, put = 0;
    const json_t *note;
    json_array_foreach(notes, index, note)
    {
        const char *said = json_string_value(json_object_get(note, "text"));
        if (!said || !says_nothing_was_recorded(note_json_kind(note)))
            continue;
        part_put_who(out, job);
        text_show(out, said);
        buf_putc(out, '\n');
        put++;
    }
    return put;
}

/* For a quiet job: it was to record calls, and has recorded none, and that is not known from anything else. */
static void put_nothing_recorded(struct buf *out, const struct job *job, const struct job_functions *functions)
{
    if (functions && (functions->events || functions->functions))
        return;
    size_t put = functions ? put_why_nothing(out, job, functions->problems) : 0;
    if (!put && job->options->trace_wanted && !job->options->trace_off)
        put_why_nothing(out, job, job->recorder.model.warnings.records);
}

/* How far it said last that it is. A new reference, or NULL. */
static json_t *progress_of(const struct job_model *model)
{
    const struct layer_last *last = layers_last(model->layers.progress);
    return last ? json_pack("{s:O, s:O, s:O}", "source", json_object_get(last->record, "source"), "done",
                            json_object_get(last->record, "done"), "total", json_object_get(last->record, "total"))
                : NULL;
}

void finish_job(struct job *job, int exit_code, struct buf *text)
{
    struct recorder *recorder = &job->recorder;
    if (job->exec_code == 0)
        put_command(job);
    set_result(job, exit_code);
    crash_explain(job);
    put_reason(job);
    files_put(job);
    syscalls_put(job);
    add_warnings(job);
    tracing_record_rules(&job->recorder, &job->watch.rules);
    watch_close(&job->watch);
    put_end(job);
    writer_wait(&recorder->writer);
    job->info.result.lost_records = writer_lost(&recorder->writer);
    json_t *omitted = kept_omitted(&recorder->model.warnings);
    job->info.warnings = recorder->model.warnings.records;
    job->info.warnings_omitted = omitted;
    job->info.crashes = recorder->model.crashes;
    struct job_report report = {.path = job->dir, .info = job->info, .state = JOB_ENDED, .model = recorder->model};
    json_t *cause = NULL, *progress = progress_of(&recorder->model);
    job->info.progress = progress;
    writer_close_spool(&recorder->writer);
    bool failed = job->info.result.exit_code || job->info.result.signal;
    /* one wait for the disk is enough: if it failed, with the cause; and none as in wait_and_sync() of record/writer.c */
    bool lasted = job->info.result.wall_seconds * NS_PER_SECOND >= WRITER_SYNC_NS;
    finish_put_info(job, lasted && !failed);
    int code = 0;
    if (writer_wait(&recorder->writer)) {
        code = note_unwritten(job);
        struct job_info kept = {0};
        if (code < 0 && job_info_read(job->dir, &kept, NULL) < 0)
            report.path = ""; /* the directory was never written: scry report cannot read it */
        job_info_done(&kept);
        report.model = recorder->model;
        part_load(&report);
        load_mpi(job, &report);
        load_functions(job, &report); /* counts programs as the statistics do */
        write_report(job, &report, &cause);
    }
    if (cause || failed) {
        job->info.cause = cause; /* lists of jobs show it */
        finish_put_info(job, lasted);
        if (failed && code == 0 && writer_wait(&recorder->writer) && note_unwritten(job) < 0)
            report.model = recorder->model;
    }
    watch_gone(&job->watch);
    if (job->options->quiet)
        put_nothing_recorded(text, job, report.functions);
    else
        job_report_summary(text, &report, report_style_for(STDERR_FILENO));
    job_functions_free(report.functions);
    mpi_report_free(report.mpi);
    job_report_parts_done(&report);
    json_decref(report.failed);
    json_decref(report.last);
    json_decref(cause);
    json_decref(omitted);
    json_decref(progress);
    job->info.warnings_omitted = job->info.cause = job->info.progress = NULL;
}

void finish_done(struct job *job)
{
    writer_end(&job->recorder.writer);
    signals_done(&job->signals); /* two processes end at the same time */
    recorder_crashes_done(&job->recorder);
    job_model_done(&job->recorder.model);
    json_decref(job->info.argv);
    json_decref(job->info.batch);
    json_decref(job->info.outputs);
    hide_args_free(job->recorder.hide);
    untraced_free(job->recorder.untraced);
    propagation_done(&job->preload.propagation);
    writer_reap(&job->recorder.writer);
    observer_reap(&job->observer);
    relay_done(&job->relay, true);
}

void finish_failed(struct job *job)
{
    char path[PATH_MAX + 32];
    static const char *const files[] = {"spool/records.jsonl", "spool", "job.json"};
    relay_done(&job->relay, false);
    finish_done(job);
    for (size_t i = 0; job->dir[0] && i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", job->dir, files[i]);
        remove(path);
    }
    if (job->dir[0])
        rmdir(job->dir);
}
