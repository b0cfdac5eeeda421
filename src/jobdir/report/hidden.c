/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the exit status 0 of a job's command hides. Lines of its logs and ends of its processes say that something failed; most of
 * that is wanted, or was handled: the questions of this file find out what is left.
 */
#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/data/cleanup.h"
#include "jobdir/layers/cause.h"
#include "jobdir/layers/culprit.h"
#include "jobdir/layers/last.h"
#include "jobdir/layers/starter.h"
#include "jobdir/mpi/look.h"
#include "jobdir/report/internal.h"
#include "jobdir/report/mpi_report.h"
#include "jobdir/text/text.h"

enum { SAID_COLUMNS = 160, LOOKS_MOST = 64 /* each takes a look at all processes */ };
static const double NEAR_SECONDS = 30, /* before the end: the job has not got over what was said then */
    AT_ONCE_SECONDS = 1;               /* before a line was read: what ended then may have said it */

/* ---- lines of logs ---- */

/* Whether the line is of standard output, which may be data (`grep ERROR big.log >hits`), and which --log does not name. */
static bool may_be_data(const struct layers *layers, const json_t *record)
{
    static const char output[] = "stdout";
    const char *file = json_string_value(json_object_get(record, "file"));
    const struct layer_last *state;
    HASH_FIND_STR(layers->log_files, output, state);
    return file && strcmp(file, output) == 0 &&
           !(state && json_array_size(json_object_get(state->record, "expressions")));
}

static bool is_no_space(const json_t *record)
{
    const char *pattern = json_string_value(json_object_get(record, "pattern"));
    return pattern && strcmp(pattern, "no_space") == 0;
}

/* Whether something ran then that shows the text of others. */
static bool was_text_shown(const struct job_model *model, double seconds)
{
    static const char *const names[] = {"grep", "egrep", "fgrep", "zgrep", "rg",   "sed",  "awk",        "gawk",
                                        "mawk", "cat",   "zcat",  "tail",  "head", "less", "journalctl", "dmesg"};
    for (size_t i = model->ended_count; i-- > 0;) {
        const struct job_process *process = &model->ended[i];
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            if (process->start <= seconds && process->end >= seconds - AT_ONCE_SECONDS &&
                strcmp(process->name, names[k]) == 0)
                return true;
    }
    return false;
}

/* "(attempt 2)": what is said once more is no failure of a job that ended well, nor that there is no version to be told. */
static bool is_of_attempt(const char *text)
{
    static const char *const words[] = {
        "attempt ", "attempt#", "attempt #", "retry ", "try again", "trying again", "not a git repository", NULL};
    return text_has_one(text, words);
}

/* "srun: error: Unable to create step": a launcher that did not get over it has failed, too, which is told by itself. */
static bool is_of_launcher(const char *text)
{
    char name[JOB_NAME_SIZE];
    size_t len = text ? strcspn(text, ": ") : 0;
    if (!len || len >= sizeof name || text[len] != ':')
        return false;
    snprintf(name, sizeof name, "%.*s", (int)len, text);
    return starter_of(name) == STARTER_LAUNCHER;
}

/* git that was asked for the version of what is no repository, or has none: a script that goes on does not need it. */
static bool asks_for_version(const struct job_process *process)
{
    static const char *const asked[] = {"status", "describe", "rev-parse", "log", "show", "diff", "branch"};
    size_t index;
    const json_t *word;
    if (strcmp(process->name, "git") != 0)
        return false;
    json_array_foreach(process->argv, index, word)
    {
        for (size_t i = 0; index && i < sizeof asked / sizeof *asked; i++)
            if (strcmp(json_string_value(word), asked[i]) == 0)
                return true;
    }
    return false;
}

/* Whether it begins with that name, or with a path to it. */
static bool begins_with_name(const char *text, const char *name)
{
    size_t len = strlen(name), path = strcspn(text, ": \t");
    const char *base = memrchr(text, '/', path);
    return (strncmp(text, name, len) == 0 && text[len] == ':') ||
           (base && text[path] == ':' && (size_t)(text + path - base - 1) == len && strncmp(base + 1, name, len) == 0);
}

/* Whether what started it, or that, failed, and that was handled. */
static bool is_below_handled(const struct job_model *model, const struct job_process *process)
{
    for (size_t i = 0; i < model->ended_count; i++) {
        const struct job_process *parent = &model->ended[i];
        if (parent->pid == process->ppid && parent->start <= process->start && parent->end >= process->end)
            return culprit_has_failed(parent) && culprit_is_handled(model, parent);
    }
    return false;
}

/* Whether it is of processes alone whose failure whoever started them has handled: it begins with their name, or is what Python says of
 * an exception. */
static bool is_of_handled(const struct job_model *model, const json_t *record)
{
    static const char python[] = "python";
    const char *text = json_string_value(json_object_get(record, "text"));
    const char *pattern = json_string_value(json_object_get(record, "pattern"));
    bool exception = pattern && (strcmp(pattern, "exception") == 0 || strcmp(pattern, "traceback") == 0), any = false;
    double seconds = record_seconds(record);
    size_t looks = 0;
    for (size_t i = model->ended_count; text && i-- > 0;) {
        const struct job_process *process = &model->ended[i];
        bool its = (exception && strncmp(process->name, python, sizeof python - 1) == 0) ||
                   begins_with_name(text, process->name);
        if (!its || !culprit_has_failed(process) || process->start > seconds ||
            process->end < seconds - AT_ONCE_SECONDS)
            continue;
        if (looks++ >= LOOKS_MOST || !culprit_is_handled(model, process))
            return false;
        any = true;
    }
    return any;
}

/* The last one that failed shortly before: a line is read a little after it was written, and others may have begun since. */
static const struct job_process *last_failure(const struct job_model *model, double seconds)
{
    static const double LATE_SECONDS = 0.2;
    const struct job_process *found = NULL;
    for (size_t i = model->ended_count; i-- > 0 && model->ended[i].end >= seconds - AT_ONCE_SECONDS;) {
        const struct job_process *process = &model->ended[i];
        if (culprit_has_failed(process) && process->end <= seconds && process->end >= seconds - LATE_SECONDS &&
            (!found || process->end > found->end))
            found = process;
    }
    return found;
}

/* Whether only processes can have said it whose failure was handled: beside the last one that failed, or at that time, no others were
 * there but shells and make. */
static bool is_of_handled_alone(const struct job_model *model, double seconds)
{
    const struct job_process *last = last_failure(model, seconds);
    double from = last ? last->start : seconds - AT_ONCE_SECONDS, until = last ? last->end : seconds;
    bool any = false;
    size_t looks = 0;
    for (size_t i = model->ended_count; i-- > 0;) {
        const struct job_process *process = &model->ended[i];
        bool failed = culprit_has_failed(process);
        if (process->start >= until || process->end < (failed ? seconds - AT_ONCE_SECONDS : from) ||
            starter_is_shell(process->name, process->argv) || strcmp(process->name, "make") == 0)
            continue;
        if (looks++ >= LOOKS_MOST || !(failed ? culprit_is_handled(model, process) : is_below_handled(model, process)))
            return false;
        any |= failed;
    }
    return any;
}

/* What Python says of an exception that it has caught: it ended well, and it was none that ended a thread, or a task. */
static bool is_caught(const struct job_model *model, const json_t *record)
{
    static const char python[] = "python";
    const char *pattern = json_string_value(json_object_get(record, "pattern"));
    double seconds = record_seconds(record);
    size_t index;
    const json_t *other;
    if (!pattern || strcmp(pattern, "exception") != 0 || !json_is_string(json_object_get(record, "place")))
        return false;
    json_array_foreach(model->layers.logs.records, index, other)
    {
        const char *its = json_string_value(json_object_get(other, "pattern"));
        if (its && strcmp(its, "python_unraised") == 0 && record_seconds(other) >= seconds - AT_ONCE_SECONDS &&
            record_seconds(other) <= seconds)
            return false;
    }
    for (size_t i = model->ended_count; i-- > 0;) {
        const struct job_process *process = &model->ended[i];
        if (process->start <= seconds && process->end >= seconds - AT_ONCE_SECONDS &&
            strncmp(process->name, python, sizeof python - 1) == 0)
            return !process->status;
    }
    return false;
}

/* Whether it is that a pipe is broken, and its reader was in a pipeline and wanted no more. */
static bool is_of_unread(const struct job_model *model, const char *text, double seconds)
{
    static const char system[] = "broken pipe", python[] = "BrokenPipe";
    size_t looks = 0;
    if (!text || (!strcasestr(text, system) && !strstr(text, python)))
        return false;
    for (size_t i = model->ended_count; i-- > 0 && looks < LOOKS_MOST;) {
        const struct job_process *process = &model->ended[i];
        if (!culprit_has_failed(process) || process->start > seconds || process->end < seconds - AT_ONCE_SECONDS)
            continue;
        looks++;
        if (culprit_is_unread(model, process))
            return true;
    }
    return false;
}

/* Whether tests were running then which all passed, as they say in that file, or in any: they try what fails, too. */
static bool is_of_tests(const struct job_model *model, double seconds, const json_t *file)
{
    static const char *const all[] = {"s OK", " passed"};
    size_t index;
    const json_t *other;
    json_array_foreach(model->layers.logs.records, index, other)
    {
        const char *pattern = json_string_value(json_object_get(other, "pattern"));
        const char *text = json_string_value(json_object_get(other, "text"));
        double passed = record_seconds(other);
        if (!pattern || strcmp(pattern, "tests") != 0 || !text || (!strstr(text, all[0]) && !strstr(text, all[1])) ||
            passed < seconds || (file && !json_equal(json_object_get(other, "file"), file)))
            continue;
        for (size_t i = model->ended_count; i-- > 0;) {
            const struct job_process *process = &model->ended[i];
            if (process->start <= seconds && process->end >= passed - AT_ONCE_SECONDS && !process->status &&
                !starter_is_shell(process->name, process->argv) && strcmp(process->name, "make") != 0)
                return true;
        }
    }
    return false;
}

/* Whether it is that something was killed, and all that was, was by the scripts that had started it: their text has a kill. */
static bool is_of_own_kill(const struct job_model *model, const json_t *record)
{
    const char *pattern = json_string_value(json_object_get(record, "pattern"));
    bool killed = pattern && strcmp(pattern, "killed") == 0, any = false;
    size_t looks = 0, index;
    const json_t *kill;
    for (size_t i = model->ended_count; killed && i-- > 0;) {
        const struct job_process *process = &model->ended[i];
        if (job_status_signal(process->status) != SIGKILL)
            continue;
        const struct layer_place *place = layers_place(&model->layers, process->ppid);
        any = false;
        json_array_foreach(json_object_get(looks++ < LOOKS_MOST && place ? place->kills : NULL, "kills"), index, kill)
            any |= json_integer_value(json_object_get(kill, "signal")) == SIGKILL;
        if (!any)
            return false;
    }
    return any;
}

/* The last error of a log. The job has got over those of long before its end, but what a full disk did not take is missing. Programs
 * that go on after that often say it in standard output. */
static const json_t *last_error(const struct job_model *model, double end)
{
    const struct layers *layers = &model->layers;
    const json_t *record;
    for (size_t i = json_array_size(layers->errors.records); i-- > 0;) {
        record = json_array_get(layers->errors.records, i);
        const char *text = json_string_value(json_object_get(record, "text"));
        bool full = is_no_space(record), data = may_be_data(layers, record);
        if ((full || record_seconds(record) >= end - NEAR_SECONDS) &&
            (!data || (full && !was_text_shown(model, record_seconds(record)))) && !is_of_attempt(text) &&
            !is_of_launcher(text) && !is_of_handled(model, record) &&
            !is_of_handled_alone(model, record_seconds(record)) && !is_caught(model, record) &&
            !is_of_unread(model, text, record_seconds(record)) &&
            !is_of_tests(model, record_seconds(record), json_object_get(record, "file")) &&
            !is_of_own_kill(model, record))
            return record;
    }
    return NULL;
}

/* ---- processes ---- */

/* Whether the line begins with its name, or with that of the script that it executes. */
static bool is_of_process(const char *text, const struct job_process *process)
{
    size_t index;
    const json_t *word;
    if (begins_with_name(text, process->name))
        return true;
    json_array_foreach(process->argv, index, word)
    {
        const char *script = json_string_value(word);
        if (index && script && *script != '-')
            return begins_with_name(text, text_base(script));
    }
    return false;
}

/* Of a process that failed, the line that begins with its name, also of the last ones: what fails and says nothing may be a test, or end by
 * SIGPIPE because nobody wants more. */
static const char *said_by(const struct layers *layers, const struct job_process *process)
{
    size_t index;
    json_t *record;
    const char *file = json_string_value(json_object_get(layers->last_lines, "file"));
    json_array_foreach(layers->logs.records, index, record)
    {
        const char *text = json_string_value(json_object_get(record, "text"));
        enum line_level level = line_level_of(json_string_value(json_object_get(record, "level")));
        if (text && level <= LINE_WARNING && is_of_process(text, process) && !may_be_data(layers, record))
            return text;
    }
    json_array_foreach(json_object_get(layers->last_lines, "lines"), index, record)
    {
        const char *text = json_string_value(record);
        if (file && strcmp(file, "stderr") == 0 && text && is_of_process(text, process))
            return text;
    }
    return NULL;
}

/* With the status that shells give to a signal by which others are ended that are wanted no more: programs that handle it end so, too. */
static bool ended_as_wanted(const struct job_process *process)
{
    int signo = WIFEXITED(process->status) ? WEXITSTATUS(process->status) - SHELL_SIGNAL : 0;
    return signo == SIGTERM || signo == SIGINT || signo == SIGHUP || signo == SIGPIPE;
}

/* The last line of standard error, if it has words of failure, was written while the process was there, and has no other's name. `alone`: nor was there another
 * program, but shells. */
static const char *said_meanwhile(const struct job_model *model, const struct job_process *process, bool alone)
{
    static const double COARSE_SECONDS = 0.01; /* times of files */
    const json_t *last = model->layers.last_lines, *lines = json_object_get(last, "lines");
    const char *file = json_string_value(json_object_get(last, "file"));
    const char *line = json_string_value(json_array_get(lines, json_array_size(lines) - 1));
    double quiet = json_number_value(json_object_get(last, "quiet_seconds")), at = record_seconds(last) - quiet;
    if (!file || strcmp(file, "stderr") != 0 || !line || !*line || isspace((unsigned char)*line) || quiet < 0 ||
        at < process->start - COARSE_SECONDS || at > process->end + COARSE_SECONDS || is_of_attempt(line) ||
        ended_as_wanted(process) || !cause_is_complaint(line) || starter_is_shell(process->name, process->argv))
        return NULL;
    for (size_t i = 0; i < model->ended_count; i++) {
        const struct job_process *other = &model->ended[i];
        bool beside = other->start < process->end && other->end > process->start;
        if (other != process &&
            ((alone && beside && !starter_is_shell(other->name, other->argv)) || begins_with_name(line, other->name)))
            return NULL;
    }
    return line;
}

static void put_said(struct buf *out, const char *said)
{
    buf_printf(out, ": %.*s", (int)text_fit(said, strlen(said), SAID_COLUMNS), said);
}

/* Where standard error is not read, or goes to tee, nothing is known of what it said. What has said nothing, and ended with 1, may be a
 * test. */
static bool find_hidden_stage(const struct job_model *model, struct buf *out)
{
    const struct layer_last *state;
    HASH_FIND_STR(model->layers.log_files, "stderr", state);
    const char *how = json_string_value(json_object_get(state ? state->record : NULL, "state"));
    size_t looks = 0;
    for (size_t i = model->ended_count; how && i-- > 0 && looks < LOOKS_MOST;) {
        const struct job_process *process = &model->ended[i];
        if (!culprit_has_failed(process) || !WIFEXITED(process->status) || culprit_is_answer(process) ||
            asks_for_version(process) || ended_as_wanted(process))
            continue;
        looks++;
        const char *said = culprit_is_stage(model, process) ? said_meanwhile(model, process, false) : NULL;
        if (!culprit_is_stage(model, process) ||
            (strcmp(how, "watched") == 0 && !said && culprit_status(process) == 1 &&
             !culprit_has_tee(model, process->pid)))
            continue;
        bool shell = starter_is_shell(process->name, process->argv);
        const struct job_process *its = shell ? culprit_of(model, process) : NULL;
        its = its && WIFEXITED(its->status) ? its : process;
        buf_printf(out, "%s (pid %d) failed with %d in a pipeline", its->name, (int)its->pid, WEXITSTATUS(its->status));
        _cleanup_(buf_done) struct buf words = BUF_INIT;
        if (said || cause_put_words_of(&words, model, its->pid))
            put_said(out, said ? said : words.data);
        return true;
    }
    return false;
}

/* The limit that the kernel has killed it for, as the shell calls it; NULL: none. */
static const char *killed_for(const struct job_process *process)
{
    int signo = job_status_signal(process->status);
    return signo == SIGXFSZ ? "ulimit -f" : signo == SIGXCPU ? "ulimit -t" : NULL;
}

static bool has_crashed(const struct job_process *process)
{
    return WIFSIGNALED(process->status) && job_signal_is_fault(WTERMSIG(process->status));
}

/* What it says, or that it crashed, or was killed for a limit; `named`: what it said begins with its name; else it was alone when that
 * was said. *looks: so many have been looked at. */
static bool is_hidden_process(const struct job_model *model, const struct job_process *process, bool named,
                              size_t *looks, const char **ret_said)
{
    if (!culprit_has_failed(process) || culprit_is_answer(process))
        return false;
    bool crashed = has_crashed(process);
    const char *said = !WIFEXITED(process->status) ? NULL
                       : named                     ? said_by(&model->layers, process)
                                                   : said_meanwhile(model, process, true);
    *ret_said = said;
    if (!crashed && !killed_for(process) && (!said || *looks >= LOOKS_MOST || is_of_unread(model, said, process->end)))
        return false;
    return (*looks)++ >= LOOKS_MOST ||
           (!culprit_is_handled(model, process) && !(crashed && is_of_tests(model, process->end, NULL)));
}

/* What is known of its crash: job.json has what the records do not. */
static void put_crash(struct buf *out, const struct job_report *report, pid_t pid)
{
    size_t index;
    json_t *crash;
    json_array_foreach(report_longer(report->info.crashes, report->model.crashes), index, crash)
    {
        if (json_integer_value(json_object_get(crash, "pid")) == pid) {
            cause_put_crash_place(out, crash);
            return;
        }
    }
}

/* The first of them, for the others may have failed because of it; what crashed, or was killed for a limit, before others. */
static bool find_hidden_process(const struct job_report *report, struct buf *out, bool named)
{
    const struct job_model *model = &report->model;
    char room[32];
    size_t looks = 0, others = 0;
    const struct job_process *found = NULL, *last = NULL;
    const char *found_said = NULL, *said;
    for (size_t i = model->ended_count; i-- > 0;) {
        const struct job_process *process = &model->ended[i];
        if (!is_hidden_process(model, process, named, &looks, &said))
            continue;
        bool exited = WIFEXITED(process->status), found_exited = found && WIFEXITED(found->status);
        last = last ? last : process;
        others += found != NULL;
        if (found && (exited != found_exited ? exited : process->end > found->end))
            continue;
        found = process;
        found_said = said;
    }
    if (!found)
        return false;
    buf_printf(out, "%s (pid %d) ", found->name, (int)found->pid);
    if (has_crashed(found)) {
        buf_printf(out, "crashed by %s", text_signal(WTERMSIG(found->status), room, sizeof room));
        put_crash(out, report, found->pid);
        cause_put_address_limit(out, model, found->pid, false, report->info.result.peak_rss_bytes);
    } else if (killed_for(found)) {
        buf_printf(out, "was killed by %s, because of a limit (%s)",
                   text_signal(WTERMSIG(found->status), room, sizeof room), killed_for(found));
    } else {
        buf_printf(out, "failed with %d", WEXITSTATUS(found->status));
        put_said(out, found_said);
    }
    if (others > 1)
        buf_printf(out, "; %zu more failed", others);
    if (others && last != found)
        buf_printf(out, "%s%s (pid %d)%s", others > 1 ? ", the last " : "; then ", last->name, (int)last->pid,
                   others > 1 ? "" : " failed");
    return true;
}

/* How many of its own processes the kernel has killed for lack of memory: by the samples of its control group, or by the note of its
 * end, which has seen those after the last sample. */
static uint64_t kills_for_memory(const struct job_model *model)
{
    uint64_t kills = model->layers.oom_kills;
    size_t index;
    json_t *warning;
    json_array_foreach(model->warnings.records, index, warning)
    {
        const json_t *fields = json_object_get(warning, "fields"), *count = json_object_get(fields, "processes");
        if (note_json_kind(warning) == NOTE_out_of_memory && json_is_true(json_object_get(fields, "own_group")) &&
            json_integer_value(count) > (json_int_t)kills)
            kills = (uint64_t)json_integer_value(count);
    }
    return kills;
}

/* The process that ended by SIGKILL; NULL: none, or several. */
static const struct job_process *only_killed(const struct job_model *model)
{
    const struct job_process *killed = NULL;
    for (size_t i = 0; i < model->ended_count; i++) {
        const struct job_process *process = &model->ended[i];
        if (job_status_signal(process->status) != SIGKILL)
            continue;
        if (killed)
            return NULL;
        killed = process;
    }
    return killed;
}

/* ---- ranks ---- */

/* MPICH's launcher may end with 0 after it has killed all ranks but one that left them. Where MPI was counted the ranks say it. */
static bool find_hidden_leaving(const struct job_model *model, struct buf *out)
{
    enum { LAUNCHERS_MOST = 64 }; /* each takes a look at all processes */
    char room[32];
    struct cause_left left = {0};
    size_t looked = 0;
    pid_t last = 0;
    for (size_t i = model->ended_count; i-- > 0 && !left.left && looked < LAUNCHERS_MOST;) {
        const struct job_process *process = &model->ended[i];
        if (!job_status_signal(process->status) || process->ppid == last)
            continue;
        looked++;
        last = process->ppid;
        cause_find_left(model, last, &left);
    }
    if (!left.left)
        return false;
    struct note note =
        NOTE(cause_left, .program = left.left->name, .pid = (uint64_t)left.left->pid, .launcher = left.launcher,
             .signal = text_signal(WTERMSIG(left.killed->status), room, sizeof room), .said = "");
    note_text(out, &note);
    return true;
}

/* MPICH's launcher may end with 0 when it was ended itself, with its ranks. Without a signal to the job, and where they were not
 * stuck, its script may have wanted that. */
static bool find_hidden_ranks(const struct job_report *report, struct buf *out)
{
    _cleanup_(buf_done) struct buf stuck = BUF_INIT;
    struct job_end end = {.model = &report->model,
                          .warnings = job_report_warnings(report),
                          .dir = report->path,
                          .seconds = job_report_result(report).wall_seconds};
    size_t killed = 0;
    for (size_t i = 0; report->mpi && i < report->mpi->set.count; i++) {
        const struct mpi_stats *stats = &report->mpi->set.ranks[i];
        bool known = stats->end.known && stats->end.status != JOB_STATUS_UNKNOWN;
        if (!known || mpi_ended_by_itself(stats))
            continue;
        killed++;
        end.signal = WTERMSIG(stats->end.status);
    }
    if (!killed)
        return false;
    report_last_waits(report, &stuck, &end);
    json_t *reason = last_reason_json(&end);
    enum note_kind kind = note_json_kind(reason);
    const char *text = json_string_value(json_object_get(reason, "text"));
    bool found = kind == NOTE_cause_mpi_stall || kind == NOTE_cause_mpi_late || kind == NOTE_cause_signal ||
                 kind == NOTE_cause_asked;
    if (found)
        buf_printf(out, "%zu rank%s killed: %s", killed, killed == 1 ? " was" : "s were", text ? text : "");
    json_decref(reason);
    return found;
}

/* Nothing failed, but the disk that the job works on became full: who does not look at what its writes return says nothing. */
static bool find_full_disk(const struct job_report *report, struct buf *out)
{
    const struct job_end end = {
        .model = &report->model, .dir = report->path, .seconds = job_report_result(report).wall_seconds};
    const struct layer_filesystem *system = cause_full_disk(&end);
    size_t index;
    const json_t *row;
    json_array_foreach(json_object_get(report->model.layers.health, "filesystems"), index, row)
    {
        const char *path = json_string_value(json_object_get(row, "path"));
        const char *uses = json_string_value(json_object_get(row, "uses"));
        if (!system || system->was_full || !path || strcmp(path, system->path) != 0 || !uses || !strstr(uses, "work"))
            continue;
        buf_printf(out, "the disk of %s became full: what was written there may not be whole", path);
        return true;
    }
    return false;
}

/* A loss that has become nan: the program goes on for nothing. */
static void find_undefined(const struct layers *layers, struct buf *out)
{
    for (const struct layer_metric *metric = layers->metrics; metric; metric = metric->hh.next)
        if (metric->undefined_since >= 0) {
            text_show(out, metric->name);
            buf_puts(out, " was nan, seen since ");
            text_seconds(out, metric->undefined_since);
            return;
        }
}

json_t *job_report_hidden(const struct job_report *report)
{
    struct job_result result = job_report_result(report);
    _cleanup_(buf_done) struct buf what = BUF_INIT, how = BUF_INIT, call = BUF_INIT;
    struct job_rank rank;
    uint64_t kills = kills_for_memory(&report->model);
    const json_t *error;
    if (result.exit_code || result.signal || report->one_rank)
        return NULL;
    bool failed = report_failed_rank(report, &rank, &how, &call);
    bool killed = failed && !rank.aborted && WIFSIGNALED(rank.status) && !job_signal_is_fault(WTERMSIG(rank.status));
    if ((!failed || killed) && find_hidden_ranks(report, &what)) {
        ; /* it says why */
    } else if (failed) {
        buf_printf(&what, "rank %d of %d %s", rank.rank, rank.ranks, rank.how);
    } else if (kills) {
        buf_puts(&what, "for lack of memory the kernel killed ");
        cause_put_killed(&what, &report->model, only_killed(&report->model), result.peak_rss_bytes, kills, true);
    } else if (!find_hidden_process(report, &what, true) && !find_hidden_stage(&report->model, &what) &&
               !find_hidden_process(report, &what, false) &&
               (report->mpi || !find_hidden_leaving(&report->model, &what)) &&
               (error = last_error(&report->model, result.wall_seconds))) {
        const char *said = json_string_value(json_object_get(error, "text"));
        const char *place = json_string_value(json_object_get(error, "place"));
        said = said ? said : "";
        buf_printf(&what, "an error was said: %.*s%s%s", (int)text_fit(said, strlen(said), SAID_COLUMNS), said,
                   place ? ", at " : "", place ? text_base(place) : "");
    } else if (!what.len && !find_full_disk(report, &what)) {
        find_undefined(&report->model.layers, &what);
    }
    struct note note = NOTE(hidden_failure, .what = what.data);
    return what.len && !what.failed ? note_json(&note) : NULL;
}
