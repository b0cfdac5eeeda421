/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scry run is the command's parent. One thread, one loop: signals, the monitor's replies, the sampling time. It never
 * waits for the monitor and never gives up because of it: the job comes first.
 */
#include "job/run/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/log.h"
#include "base/system/pause.h"
#include "base/system/proc_file.h"
#include "base/system/process.h"
#include "job/record/batch.h"
#include "jobdir/text/hide_args.h"
#include "job/run/job.h"
#include "job/run/part.h"
#include "job/record/writer.h"
#include "job/launch/launch.h"
#include "job/logs/logs.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"

/* Keeps what scry opens from becoming the job's standard streams, and what scry prints from going into it. */
static void fill_standard_streams(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

static void job_describe(struct job *job)
{
    struct job_info *info = &job->info;
    if (!getcwd(job->cwd, sizeof job->cwd))
        snprintf(job->cwd, sizeof job->cwd, "?");
    user_name(geteuid(), job->user, sizeof job->user);
    job_boot_id(job->boot_id, sizeof job->boot_id);
    json_t *batch = batch_read(job->batch_name, sizeof job->batch_name);
    if (!*job->options->name)
        job->options->name = job->batch_name;
    *info = (struct job_info){.id = job->id,
                              .name = job->options->name,
                              .batch = batch,
                              .task = getenv("SCRY_TASK"),
                              .host = job->host,
                              .user = job->user,
                              .cwd = job->cwd,
                              .boot_id = job->boot_id,
                              .argv = hide_args_json(job->options->command, job->recorder.hide),
                              .started_ns = clock_wall_ns(),
                              .sample_seconds = job->options->sample_seconds,
                              .profile_hz = job->options->profile_hz,
                              .supervisor = getpid(),
                              .supervisor_ticks = job_process_ticks(getpid())};
}

/* Is it the disk's fault, and not the user's? Then the job runs anyway. */
static bool is_about_room(int code)
{
    return code == -ENOSPC || code == -EDQUOT || code == -EROFS || code == -EIO || code == -ENFILE || code == -EMFILE;
}

static int job_refuse(struct job *job, const struct err *why, struct err *err)
{
    job->refused = true;
    return err_set(err, why->code, "%s", why->text);
}

/* The job waits for this, unless the disk does not answer. */
static void write_info(struct job *job)
{
    finish_put_info(job, false);
    writer_wait(&job->recorder.writer);
}

/* 0 or -errno. */
static int open_directory(struct job *job, struct err *err)
{
    struct err here = {0};
    gethostname(job->host, sizeof job->host - 1);
    int code = part_directory(job, &here);
    if (code < 0 && job->options->dir && !is_about_room(code))
        return job_refuse(job, &here, err);
    if (code < 0)
        job->dir[0] = 0;
    job->recorder.hide = hide_args_new(job->options->hide_args);
    job_describe(job);
    if (job_model_init(&job->recorder.model, 0) < 0)
        return err_set(err, -ENOMEM, "out of memory");
    if (job->dir[0] && (code = writer_start(&job->recorder.writer, job->dir, job->id, job->options->max_bytes)) < 0)
        return err_errno(err, code, "watching takes one more process%s", code == -EAGAIN ? " (ulimit -u)" : "");
    if (job->dir[0]) {
        finish_put_info(job, false); /* others may see the job from now on; its command waits for write_info */
        writer_push(&job->recorder.writer);
        return 0;
    }
    struct writer_told *told = &job->recorder.writer.told;
    told->stopped = true;
    snprintf(told->reason, sizeof told->reason, "%.250s", here.text);
    return 0;
}

static void put_on_stderr(const struct buf *text)
{
    if (text->failed || !text->data)
        return;
    for (size_t put = 0; put < text->len;) {
        ssize_t got = write(STDERR_FILENO, text->data + put, text->len - put);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return; /* nobody reads it; the report has it, too */
        put += (size_t)got;
    }
}

static void job_say(const struct job *job, const struct buf *text)
{
    if (!job->options->quiet)
        put_on_stderr(text);
}

/* Prints, even for a quiet job, that nobody watches it or that records of it are lost: there will hardly be a report.
 */
static void say_loudly(const struct job *job, const char *const *kinds)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    size_t index;
    const json_t *warning;
    json_array_foreach(job->recorder.model.warnings.records, index, warning)
    {
        const char *kind = json_string_value(json_object_get(warning, "kind"));
        const char *said = json_string_value(json_object_get(warning, "text"));
        bool chosen = false;
        for (const char *const *each = kinds; kind && said && *each; each++)
            chosen = chosen || strcmp(kind, *each) == 0;
        if (!chosen)
            continue;
        part_put_who(&text, job);
        text_show(&text, said);
        buf_putc(&text, '\n');
    }
    put_on_stderr(&text);
}

static void job_announce(const struct job *job)
{
    static const char *const unwatched[] = {"monitor", NULL};
    if (job->options->quiet)
        say_loudly(job, unwatched);
    if (job->options->quiet && job->dir[0])
        return;
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    part_put_who(&text, job);
    buf_printf(&text, "job %s", job->id);
    if (!job->dir[0]) {
        buf_puts(&text, " is not recorded: ");
        text_show(&text, job->recorder.writer.told.reason);
    } else if (job->options->dir) {
        buf_puts(&text, " in ");
        text_show(&text, job->dir);
    }
    buf_putc(&text, '\n');
    if (job->publish.fd >= 0 && !job->options->quiet) {
        buf_puts(&text, "scry: published at ");
        text_show(&text, job->publish.shown);
        buf_putc(&text, '\n');
    }
    if (job->untraced.code && !job->options->quiet) { /* also in the summary, but that may be hours away */
        buf_puts(&text, "scry: ");
        text_show(&text, job->untraced.text);
        buf_putc(&text, '\n');
    }
    put_on_stderr(&text);
}

/* What interpreters find in their environment. */
static void prepare_scripts(struct job *job)
{
    struct err err = {0};
    if (job->options->script < RUN_SCRIPT_CALLS)
        return;
    const char *level = job->options->script == RUN_SCRIPT_LINES ? "lines" : "calls";
    if (script_env_find(&job->preload.script, level, &err) < 0)
        recorder_note(&job->recorder, NOTE(source_off, .source = "what happens inside scripts", .reason = err.text));
}

/* Functions are named, and so also those that were compiled without hooks are meant. */
static bool names_functions(const struct run_options *options)
{
    for (size_t i = 0; i < options->rule_count; i++)
        if (strstr(options->rules[i], "ct_function_"))
            return true;
    for (size_t i = 0; i < options->setting_count; i++)
        if (strcmp(options->settings[i].key, "trace") == 0)
            return !options->trace_off && *options->settings[i].value;
    return false;
}

/* The agent that will be loaded into the command. */
static void prepare_tracing(struct job *job)
{
    const struct run_options *options = job->options;
    struct err err = {0};
    if (!job->dir[0])
        return;
    json_t *settings = json_object();
    for (size_t i = 0; i < options->setting_count; i++)
        json_object_set_new(settings, options->settings[i].key, text_json(options->settings[i].value));
    if (options->setting_count)
        recorder_put(&job->recorder, RECORD(tracing, .settings = settings));
    json_decref(settings);
    if (options->trace_off && options->mpi == RUN_MPI_OFF) {
        prepare_scripts(job);
        return;
    }
    bool wanted = (options->trace_wanted && !options->trace_off) || options->rule_count;
    job->preload.patches = wanted && names_functions(options);
    int code = preload_find(&job->preload, options->command[0], wanted, &err);
    job->preload.mpi_off = options->mpi == RUN_MPI_OFF;
    if (job->preload.library[0])
        metrics_share(job->preload.metrics, sizeof job->preload.metrics, job->info.supervisor);
    prepare_scripts(job);
    if (job->preload.is_script)
        recorder_put(&job->recorder, RECORD(script, .path = options->command[0]));
    if (code == -ENOEXEC)
        recorder_put(&job->recorder, RECORD(untraced, .text = err.text));
    if (code == -ENOEXEC && !wanted)
        return; /* nothing was expected */
    if (code < 0)
        job->agentless = err;
    if (code < 0 && wanted)
        job->untraced = err;
}

/* Refuses to start the job if the monitor cannot fulfil an option. 0 or -errno. */
static int check_refused(struct job *job, struct err *err)
{
    struct watch *watch = &job->watch;
    const struct err *first = watch->refused.code ? &watch->refused : &watch->rules.err;
    if (watch->refused.code && !job->preload.library[0])
        first = &watch->rules.err; /* nothing is traced anyway, and the reason was printed */
    if (!first->code)
        return 0;
    if (first->code == -ENOSYS && !job->options->rule_count) {
        recorder_note(&job->recorder, NOTE(tracing_unsupported, .reason = first->text));
        return 0;
    }
    return job_refuse(job, first, err);
}

/* Warns about options that are not in force when the command starts. */
static void warn_late(struct job *job)
{
    const struct watch *watch = &job->watch;
    if (watch->stacks.arming > 0)
        recorder_note(&job->recorder, NOTE(crash_stack_late, .seconds = SUPERVISE_START_MS / 1000));
    if (watch->rules.arming > 0 && job->options->rule_count)
        recorder_note(&job->recorder, NOTE(rules_late, .seconds = SUPERVISE_START_MS / 1000));
    else if (watch->rules.lost && job->options->rule_count)
        recorder_note(&job->recorder, NOTE(rules_interrupted));
}

static void start_observer(struct job *job)
{
    job->observer.recorder = &job->recorder;
    job->observer.sources = observe_sources;
    job->observer.given = (struct observer){.options = job->options,
                                            .root = job->launch.pid,
                                            .dir = job->dir,
                                            .cwd = job->cwd,
                                            .metrics = job->preload.metrics,
                                            .kept = {job->relay.names[0], job->relay.names[1]}};
    if (!job->dir[0])
        return;
    observer_start(&job->observer);
}

/* Has the monitor follow the held child; else the job runs without it. The observer is made while the monitor works. */
static void start_watching(struct job *job)
{
    struct err err = {0};
    struct watch *watch = &job->watch;
    int code = watch_connect(watch, &err);
    if (code == 0)
        watch_create(watch);
    start_observer(job);
    bool same = code < 0 && strcmp(job->agentless.text, err.text) == 0; /* then it is said once */
    if (job->agentless.code && !same)
        recorder_note(&job->recorder, NOTE(agent_not_loaded, .reason = job->agentless.text));
    if (code < 0) {
        recorder_note(
            &job->recorder,
            NOTE(no_monitor, .functions = job->options->trace_wanted || job->options->rule_count, .reason = err.text));
        watch->retry_ns = clock_now_ns() + NS_PER_SECOND;
        watch->tries = 4;
    } else {
        bool ready = watch_wait(watch, SUPERVISE_START_MS);
        if ((!ready && watch->phase == WATCH_IDLE) || watch->rules.lost)
            warn_late(job);
        if (ready || (watch->phase != WATCH_CREATING && watch->phase != WATCH_SETTING))
            return;
        if (!watch->hangs[0])
            snprintf(watch->hangs, sizeof watch->hangs, "the monitor did not answer in %d s",
                     SUPERVISE_START_MS / 1000);
        recorder_note(&job->recorder, NOTE(monitor_hangs, .reason = watch->hangs));
    }
    /* The agent would wait for it, too, in every process. */
    if (watch->hangs[0]) {
        err_set(&job->untraced, -ETIMEDOUT, "the job is started unwatched and untraced: %s", watch->hangs);
        job->preload.library[0] = 0;
    }
}

static void follow_stop(struct job *job, int signo)
{
    double from = recorder_seconds(&job->recorder, clock_now_ns());
    relay_terminal(&job->relay, false);
    bool stopped = stop_follow(job->launch.pid, signo, &job->signals.witness);
    relay_terminal(&job->relay, true);
    if (stopped)
        recorder_put(&job->recorder, RECORD(gap, .from = from, .to = recorder_seconds(&job->recorder, clock_now_ns()),
                                            .reason = "stopped at the terminal"));
}

static void add_usage(struct job *job, const struct rusage *usage)
{
    job->cpu_ns += (uint64_t)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * NS_PER_SECOND +
                   (uint64_t)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) * 1000;
    uint64_t largest = (uint64_t)usage->ru_maxrss * 1024;
    job->largest_rss = largest > job->largest_rss ? largest : job->largest_rss;
}

/* What is known only until it is waited for. */
static void look_at_ended(struct job *job, bool failed)
{
    struct proc_io io;
    reason_look(&job->limits, job->launch.pid, failed);
    if (proc_io_read(job->launch.pid, &io) == 0)
        job->io = (struct job_io){true, io.called_read, io.called_wrote, io.read_bytes, io.written_bytes};
}

/* Waits for the command. Its usage includes that of the descendants it waited for. */
static void reap(struct job *job)
{
    int status;
    struct rusage usage;
    pid_t pid;
    siginfo_t gone = {.si_pid = 0};
    if (!job->ended && waitid(P_PID, (id_t)job->launch.pid, &gone, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        gone.si_pid == job->launch.pid)
        look_at_ended(job, gone.si_code != CLD_EXITED || gone.si_status);
    while ((pid = wait4(-1, &status, WNOHANG | WUNTRACED, &usage)) > 0) {
        if (WIFSTOPPED(status)) {
            if (pid == job->launch.pid)
                follow_stop(job, WSTOPSIG(status));
            continue;
        }
        if (pid != job->launch.pid)
            continue;
        add_usage(job, &usage);
        job->ended = true;
        job->status = job->recorder.command_status = status;
        job->recorder.command = pid;
        job->end_ns = clock_now_ns();
    }
}

static void take_signals(struct job *job)
{
    struct signalfd_siginfo info;
    while (read(job->signals.fd, &info, sizeof info) == sizeof info) {
        pause_at("run.signal");
        if (info.ssi_signo == SIGWINCH || info.ssi_signo == SIGCONT)
            relay_resized(&job->relay);
        if (!job->ended && signals_pass_on(&job->signals, &info, job->launch.pid))
            reason_signal_came(&job->recorder, &info, job->signals.had_terminal);
    }
    reap(job);
}

static void plan_sample(struct job *job)
{
    job->sample_ns = sampling_next_ns(job->recorder.start_ns, clock_now_ns(), job->options->sample_seconds);
}

/* A program may have to wait for its tracing before main. After a while, this tells the person why. */
static void tell_wait(struct job *job)
{
    struct watch *watch = &job->watch;
    if (job->wait_told || !job->preload.library[0] || watch->phase != WATCH_IDLE)
        return;
    if (!job->wait_asked) {
        job->wait_asked = recorder_seconds(&job->recorder, clock_now_ns()) > SUPERVISE_TOLD_SECONDS;
        if (job->wait_asked)
            watch_ask_traces(watch, false);
        return;
    }
    job->wait_told = true;
    const struct note *note = tracing_note(&watch->traces, NOTE_main_waits);
    if (!note)
        return;
    _cleanup_(buf_done) struct buf said = BUF_INIT, text = BUF_INIT;
    note_text(&said, note);
    buf_puts(&text, "scry: ");
    text_show(&text, said.data ? said.data : "");
    buf_putc(&text, '\n');
    job_say(job, &text);
}

static void supervise(struct job *job)
{
    plan_sample(job);
    while (!job->ended) {
        uint64_t now = clock_now_ns();
        if (now >= job->sample_ns) {
            watch_tick(&job->watch);
            writer_push(&job->recorder.writer);
            publish_handle(&job->publish);
            part_tick(job);
            plan_sample(job);
            continue;
        }
        uint64_t wait_ms = (job->sample_ns - now) / 1000000 + 1;
        struct pollfd inputs[5] = {{.fd = job->signals.fd, .events = POLLIN},
                                   {.fd = watch_fd(&job->watch), .events = POLLIN},
                                   {.fd = job->observer.fd, .events = POLLIN},
                                   {.fd = job->publish.fd, .events = POLLIN},
                                   {.fd = relay_fd(&job->relay)}};
        relay_terminal(&job->relay, true);
        bool look = relay_waits_for_terminal(&job->relay) && wait_ms > TERMINAL_LOOK_MS;
        poll(inputs, 5, look ? TERMINAL_LOOK_MS : wait_ms > 60000 ? 60000 : (int)wait_ms);
        if (inputs[1].revents) {
            watch_handle(&job->watch);
            tell_wait(job);
        }
        if (inputs[2].revents) {
            observer_handle(&job->observer);
            writer_push(&job->recorder.writer);
        }
        if (inputs[3].revents)
            publish_handle(&job->publish);
        if (inputs[4].revents)
            relay_lost(&job->relay);
        if (inputs[0].revents)
            take_signals(job);
    }
}

/* What the observer and rules want to know. */
static void on_recorded(void *ctx, enum record_type type, json_t *record)
{
    struct job *job = ctx;
    raise_record(&job->watch.raises, type, record);
    if (type == RECORD_process)
        part_look_at(job, record);
    if (type == RECORD_process_end && json_integer_value(json_object_get(record, "status")) == SIGKILL)
        job->killed[job->killed_count++ % JOB_KILLED] = (pid_t)json_integer_value(json_object_get(record, "pid"));
    if (type == RECORD_process || type == RECORD_process_end || type == RECORD_setting || type == RECORD_stall)
        observer_tell_take(&job->observer, json_incref(record));
}

static void start_publisher(struct job *job)
{
    const struct broker_url *url = job->dir[0] ? job->options->broker : NULL;
    job->publish = (struct publish_link){.fd = -1,
                                         .recorder = &job->recorder,
                                         .url = url,
                                         .dir = job->dir,
                                         .job = job->id,
                                         .key = job->options->key,
                                         .output = job->options->publish_output,
                                         .hide_args = job->options->hide_args};
    publish_start(&job->publish, job->user);
}

static int exit_code_of(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* `scry set` changed the job. The monitor has already applied what concerns tracing. */
static void on_changed(void *ctx, const char *key, const char *value)
{
    struct job *job = ctx;
    struct err err = {0};
    int code = run_setting_change(job->options, key, value, &err);
    recorder_put(&job->recorder, RECORD(setting, .key = key, .value = value, .taken = code == 0));
    if (code < 0) {
        recorder_note(&job->recorder, NOTE(setting_refused, .reason = err.text));
        return;
    }
    part_changed(job, key, value);
    writer_limit(&job->recorder.writer, job->options->max_bytes);
    plan_sample(job);
}

/* What is said before that is none of the command's. */
static void describe_outputs(struct job *job)
{
    if (!job->dir[0])
        return;
    job->info.outputs = json_array();
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
        json_array_append_new(job->info.outputs, job_output_json(fd));
}

static void end_outputs(struct job *job)
{
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
        job_output_end(json_array_get(job->info.outputs, (size_t)(fd - STDOUT_FILENO)), fd);
}

/* With --tee, has what the command writes to pipes passed on and kept. */
static void start_relay(struct job *job)
{
    static const int targets[] = {STDOUT_FILENO, STDERR_FILENO};
    static const char *const names[] = {"standard output", "standard error"};
    if (!job->options->tee || !job->dir[0])
        return;
    int code = relay_start(&job->relay, targets, job->dir, job->options->tee_bytes);
    for (size_t i = 0; i < RELAY_STREAMS; i++)
        if (code < 0 || job->relay.reasons[i])
            recorder_note(&job->recorder, NOTE(output_aside, .file = names[i],
                                               .reason = code < 0 ? strerror(-code) : job->relay.reasons[i]));
}

/* ^C and ^\\ at a terminal of the job's own, which scry run does not get. */
static void look_for_typed_signal(struct job *job)
{
    const struct signalfd_siginfo typed = {.ssi_signo = (uint32_t)relay_typed_signal(&job->relay),
                                           .ssi_code = SI_KERNEL};
    if (!typed.ssi_signo)
        return;
    job->signals.saw_terminal_interrupt |= typed.ssi_signo == SIGINT;
    reason_signal_came(&job->recorder, &typed, job->signals.had_terminal);
}

/* As the command would have: until its reader has all, unless somebody wants an end. */
static void wait_for_output(struct job *job)
{
    struct signalfd_siginfo info;
    char reason[128];
    bool over = false;
    while (!over && !relay_wait(&job->relay, job->signals.fd))
        while (read(job->signals.fd, &info, sizeof info) == sizeof info)
            over |= info.ssi_signo == SIGINT || info.ssi_signo == SIGTERM || info.ssi_signo == SIGHUP ||
                    info.ssi_signo == SIGQUIT;
    relay_terminal(&job->relay, false);
    look_for_typed_signal(job);
    for (size_t i = 0; i < RELAY_STREAMS; i++)
        if (relay_lack(&job->relay, i, reason, sizeof reason))
            recorder_note(&job->recorder, NOTE(output_lack, .file = job->relay.names[i], .reason = reason));
}

static int job_start(struct job *job, struct err *err)
{
    int code = signals_init(&job->signals);
    job->recorder.writer.fd = job->observer.fd = job->publish.fd = job->parts_fd = -1;
    job->relay = RELAY_NONE;
    if (code < 0)
        return err_errno(err, code, "cannot handle signals%s", code == -EMFILE ? " (ulimit -n)" : "");
    job->recorder.start_ns = clock_now_ns();
    code = open_directory(job, err);
    if (code < 0)
        return code;
    oom_count("", job->info.supervisor, &job->oom_before);
    prepare_tracing(job);
    part_prepare(job);
    files_share(job); /* after what else is loaded was found */
    pause_at("run.launch");
    start_relay(job);
    signals_look(&job->signals);
    const struct launch_streams streams = {{job->relay.input, job->relay.outputs[0], job->relay.outputs[1]},
                                           job->relay.leash};
    job->signals.apart = streams.leash >= 0;
    code = launch_held(&job->launch, job->options->command, job->dir[0] ? job->dir : NULL, job->options->crash_stack,
                       &streams, &job->preload, &job->signals, err);
    if (code < 0)
        return code;
    relay_given(&job->relay);
    struct rusage own;
    getrusage(RUSAGE_SELF, &own);
    job->fork_rss = (uint64_t)own.ru_maxrss * 1024;
    job->watch.recorder = &job->recorder; /* the rest, pages of it, is zero */
    job->watch.dir = job->dir;
    job->watch.root = job->launch.pid;
    job->watch.crash_stack = job->options->crash_stack;
    job->watch.options = job->options;
    job->watch.bytes.fd = -1;
    job->watch.changed = on_changed;
    job->watch.ctx = job;
    if (job->dir[0])
        bytes_open(&job->watch.bytes);
    start_watching(job);
    code = check_refused(job, err);
    if (code < 0) {
        observer_end(&job->observer);
        launch_abandon(&job->launch);
        watch_close(&job->watch);
        watch_gone(&job->watch);
        return code;
    }
    if (job->dir[0]) {
        job->recorder.recorded = on_recorded;
        job->recorder.ctx = job;
    }
    syscalls_start(job);
    start_publisher(job);
    job_announce(job);
    job->info.root = job->launch.pid;
    job->info.root_ticks = job_process_ticks(job->launch.pid);
    job->info.started_ns = clock_wall_ns();
    job->recorder.start_ns = job->info.began_ns = clock_now_ns();
    describe_outputs(job);
    observer_started(&job->observer);
    write_info(job);
    observer_await(&job->observer);
    job->recorder.started = true;
    if (job->dir[0])
        step_offer(job->dir);
    return 0;
}

static void job_release(struct job *job)
{
    job->exec_code = launch_release(&job->launch, job->preload.library[0] != 0);
    if (job->exec_code != LAUNCH_UNTRACED)
        return;
    struct note note = NOTE(no_environment);
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    job->exec_code = 0;
    recorder_note(&job->recorder, note);
    note_text(&text, &note);
    log_warning("%s", text.data ? text.data : "");
}

/* Executes the command in place of this process, as if scry were not there. */
static int run_unwatched(struct job *job, const struct err *err)
{
    char **command = job->options->command;
    _cleanup_(buf_done) struct buf shown = BUF_INIT;
    text_show(&shown, err->text);
    log_warning("the job runs unwatched: %s", shown.data ? shown.data : "");
    finish_failed(job);
    step_forget();
    signals_restore(&job->signals);
    execvp(command[0], command);
    int code = -errno;
    launch_explain(command[0], code);
    return launch_exit_code(code);
}

/* Waits, for the summary was printed already. */
static void finish_publishing(struct job *job)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    writer_wait(&job->recorder.writer); /* report.txt */
    publish_finish(&job->publish, &text);
    publish_end(&job->publish);
    job_say(job, &text);
}

int job_run(struct run_options *options)
{
    static const char *const lost[] = {"recording_stopped", "disk_hangs", "job_json", NULL};
    _cleanup_(freep) struct job *job = calloc(1, sizeof *job);
    struct err err = {0};
    fill_standard_streams();
    if (!job) {
        log_error("out of memory");
        return JOB_FAILED_BEFORE_START;
    }
    job->options = options;
    int code = job_start(job, &err);
    if (code < 0 && (!job->refused || options->anyway))
        return run_unwatched(job, &err);
    if (code < 0) {
        _cleanup_(buf_done) struct buf shown = BUF_INIT;
        text_show(&shown, err.text);
        log_error("%s", shown.data ? shown.data : "");
        finish_failed(job);
        return JOB_FAILED_BEFORE_START;
    }
    job_release(job);
    supervise(job);
    observer_ending(&job->observer);
    part_wait(job);
    finish_watch(job);
    wait_for_output(job);
    reap(job);
    observer_over(&job->observer);
    job->oom_after = job->oom_before;
    oom_count_again("", &job->oom_after);
    observer_finish(&job->observer);
    watch_settle(&job->watch, SUPERVISE_ANSWER_MS);
    if (job->watch.raises.omitted)
        recorder_note(&job->recorder, NOTE(events_omitted, .records = job->watch.raises.omitted, .rate = RAISE_RATE));
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    publish_warn(&job->publish);
    int exit_code = job->exec_code < 0 ? launch_exit_code(job->exec_code) : exit_code_of(job->status);
    end_outputs(job);
    finish_job(job, exit_code, &text);
    if (job->exec_code < 0)
        launch_explain(options->command[0], job->exec_code);
    put_on_stderr(&text);
    finish_publishing(job);
    part_wait_brought(job);
    if (options->quiet && job->dir[0]) /* else it was printed at the start that nothing is recorded */
        say_loudly(job, lost);
    bool interrupted =
        job->signals.saw_terminal_interrupt && WIFSIGNALED(job->status) && WTERMSIG(job->status) == SIGINT;
    finish_done(job);
    if (interrupted)
        signals_die_of_interrupt(); /* the shell still sees 130, and stops its script */
    return exit_code;
}
