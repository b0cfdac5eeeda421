/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/layers/cause.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "jobdir/text/notes_json.h"
#include "jobdir/text/text.h"

enum { TEXT_COLUMNS = 160, SHELL_SIGNAL = 128, TIMEOUT_STATUS = 124 };
/* Before the end: what may still have to do with it, and what ends a script at once. */
static const double NEAR_SECONDS = 30, AT_ONCE_SECONDS = 1, FAILURE_SECONDS = 5;
static const double SEEN_SECONDS = 0.05; /* times of what was only seen are that coarse */
static const double FULL_SHARE = 0.001;  /* of a disk, that is left */

/* ---- what rules share ---- */

static void add_evidence(struct cause *cause, const json_t *record)
{
    json_t *seq = json_object_get(record, "seq");
    if (seq)
        json_array_append(cause->evidence, seq);
}

static void put_cut(struct buf *out, const char *text)
{
    if (text)
        buf_append(out, text, text_fit(text, strcspn(text, "\n"), TEXT_COLUMNS));
}

static const char *text_of(const struct buf *buf)
{
    return buf->data ? buf->data : "";
}

static bool is_near(const struct job_end *end, double seconds)
{
    return seconds >= end->seconds - NEAR_SECONDS;
}

/* As a shell has it. */
static int end_status(const struct job_end *end)
{
    return end->signal ? SHELL_SIGNAL + end->signal : end->exit_code;
}

int cause_chain_at(const struct job_end *end, pid_t pid)
{
    size_t index;
    json_t *process;
    json_array_foreach(end->chain, index, process)
    {
        if (json_integer_value(json_object_get(process, "pid")) == pid)
            return (int)index;
    }
    return -1;
}

static double chain_end(const struct job_end *end, int at)
{
    const json_t *seconds = json_object_get(json_array_get(end->chain, (size_t)at), "end_seconds");
    return seconds ? json_number_value(seconds) : end->seconds;
}

double cause_before_end(const struct job_end *end, pid_t pid, double seconds)
{
    const struct job_model *model = end->model;
    int at = cause_chain_at(end, pid);
    double ended = at >= 0 ? chain_end(end, at) : seconds;
    /* they stand about in the order of their ends */
    for (size_t i = model->ended_count; at < 0 && i-- > 0 && model->ended[i].end >= seconds - NEAR_SECONDS;)
        if (model->ended[i].pid == pid) {
            ended = model->ended[i].end;
            break;
        }
    return ended < seconds ? ended : seconds;
}

/* The signal that killed the process that failed first, or the command; 0: none. */
static int first_signal(const struct job_end *end)
{
    const json_t *signal = json_object_get(json_array_get(end->chain, 0), "signal");
    return json_is_integer(signal) ? (int)json_integer_value(signal) : end->signal;
}

static json_t *last_of(const struct layer_list *list, size_t back)
{
    size_t count = json_array_size(list->records);
    return back < count ? json_array_get(list->records, count - 1 - back) : NULL;
}

/* The last warning of this kind; NULL: there is none. */
static const json_t *find_warning(const struct job_end *end, enum note_kind kind)
{
    const json_t *found = NULL;
    size_t index;
    json_t *warning;
    json_array_foreach(end->warnings, index, warning)
    {
        if (note_json_kind(warning) == kind)
            found = warning;
    }
    return found;
}

/* The same of a note that this version may not have yet. */
static const json_t *find_named(const struct job_end *end, const char *name)
{
    const json_t *found = NULL;
    size_t index;
    json_t *warning;
    json_array_foreach(end->warnings, index, warning)
    {
        const char *note = json_string_value(json_object_get(warning, "note"));
        if (note && strcmp(note, name) == 0)
            found = warning;
    }
    return found;
}

static const json_t *warning_field(const json_t *warning, const char *name)
{
    return json_object_get(json_object_get(warning, "fields"), name);
}

/* ---- the node ---- */

static bool find_memory(const struct job_end *end, struct cause *cause, bool sure)
{
    const json_t *warning = find_warning(end, NOTE_out_of_memory);
    uint64_t kills = end->model->layers.oom_kills;
    bool own = kills || json_is_true(warning_field(warning, "own_group"));
    if ((!warning && !kills) || (sure && (!own || first_signal(end) != SIGKILL)))
        return false;
    json_int_t counted = json_integer_value(warning_field(warning, "processes"));
    add_evidence(cause, warning ? warning : end->model->layers.health);
    cause->note = NOTE(cause_memory,
                       .processes = warning && counted > 0 ? (uint64_t)counted
                                    : kills                ? kills
                                                           : 1,
                       .sure = sure);
    return true;
}

/* Killed, when memory was short. */
static bool find_memory_short(const struct job_end *end, struct cause *cause, bool sure)
{
    static const char *const names[] = {"group_memory_low", "group_memory_filling", "memory_low", "memory_filling",
                                        "memory_pressure"};
    const json_t *found = NULL;
    if (sure || first_signal(end) != SIGKILL)
        return false;
    for (size_t i = 0; i < sizeof names / sizeof *names && !found; i++) {
        found = find_named(end, names[i]);
        if (found && !is_near(end, record_seconds(found)))
            found = NULL;
    }
    if (!found)
        return false;
    put_cut(&cause->what, json_string_value(json_object_get(found, "text")));
    add_evidence(cause, found);
    cause->note = NOTE(cause_memory_short, .text = text_of(&cause->what));
    return true;
}

/* What is known of the command; of a process that it started, what such a signal is for. */
static bool find_limit(const struct job_end *end, struct cause *cause, bool sure)
{
    int signo = first_signal(end);
    const char *name = json_string_value(json_object_get(json_array_get(end->chain, 0), "name"));
    bool known = end->signal && end->reason && *end->reason && !json_array_size(end->crashes);
    if (sure ? !known : signo != SIGXFSZ && signo != SIGXCPU)
        return false;
    put_cut(&cause->where, sure || !name ? "the command" : name);
    put_cut(&cause->what, sure               ? end->reason
                          : signo == SIGXFSZ ? "a file grew beyond its limit (ulimit -f)"
                                             : "its limit of processor time (ulimit -t)");
    add_evidence(cause, end->model->end);
    cause->note = NOTE(cause_limit, .program = text_of(&cause->where),
                       .signal = text_signal(sure ? end->signal : signo, cause->signal, sizeof cause->signal),
                       .reason = text_of(&cause->what), .sure = sure);
    return true;
}

static bool is_little(int64_t bytes, const struct layer_filesystem *system)
{
    return system->total_bytes > 0 && bytes >= 0 && (double)bytes <= FULL_SHARE * (double)system->total_bytes;
}

/* At the end, or shortly before. */
static bool is_full(const struct job_end *end, const struct layer_filesystem *system)
{
    return is_little(system->free_bytes, system) ||
           (is_little(system->least_free_bytes, system) && is_near(end, system->least_at));
}

static bool has_no_inodes(const struct layer_filesystem *system)
{
    return system->inodes > 0 && system->free_inodes == 0;
}

/* Nothing that the job is known to use is there. */
static bool is_job_directory(const struct job_end *end, const struct layer_filesystem *system)
{
    const char *id = end->dir ? text_base(end->dir) : "";
    return *id && strcmp(id, text_base(system->path)) == 0;
}

/* A disk that was full near the end, by what was measured; one that became so rather than one that was it before. */
static const struct layer_filesystem *full_disk(const struct job_end *end)
{
    const struct layer_filesystem *found = NULL;
    for (const struct layer_filesystem *system = end->model->layers.filesystems; system; system = system->hh.next)
        if (!is_job_directory(end, system) && (is_full(end, system) || has_no_inodes(system)) &&
            (!found || found->was_full))
            found = system;
    return found;
}

static void say_full(struct cause *cause, const struct job_end *end, const struct layer_filesystem *system, bool sure)
{
    buf_puts(&cause->where, system->path);
    cause->note = NOTE(cause_disk_full, .path = text_of(&cause->where), .inodes = !is_full(end, system), .sure = sure);
}

static bool find_full_disk(const struct job_end *end, struct cause *cause, bool sure)
{
    const struct layer_filesystem *system = full_disk(end);
    if (sure || !system || system->was_full)
        return false;
    add_evidence(cause, end->model->layers.health);
    say_full(cause, end, system, false);
    return true;
}

/* ---- what programs say ---- */

/* Errors that have a cause outside the program: the C library's text, or a built-in pattern of logs. 0, NULL: none.
 * `once`: it comes again only where the same is tried again. */
static const struct {
    int error;
    const char *pattern, *what;
    bool once;
} errors[] = {
    {ENOSPC, "no_space", "a disk was full", false},
    {EDQUOT, "disk_quota", "a disk quota was used up", false},
    {EFBIG, NULL, "a file grew beyond its limit (ulimit -f, or the file system's)", false},
    {0, "oom_kill", "it was killed because it took too much memory", false},
    {0, "batch_limit", "the batch system ended it", false},
    {ENOMEM, "out_of_memory", "there was not enough memory", true},
    {EMFILE, "too_many_files", "a process had too many open files (ulimit -n)", true},
    {ENFILE, NULL, "the node had too many open files", true},
    {EROFS, "read_only", "a file system can only be read", false},
    {EKEYEXPIRED, NULL, "a credential had expired", false},
    {EIO, "io_error", "a disk or file system does not work", false},
    {ESTALE, NULL, "a file system of another node lost a file", false},
    {0, "shared_object", "a library is missing, or is another version", true},
    {0, "command_not_found", "a program was not found", true},
    {0, "mpi_abort", "an MPI program gave up", true},
    {0, "gpu_error", "an error of a GPU", true},
};

static int error_in(const char *text, const char *pattern)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if ((pattern && errors[i].pattern && strcmp(pattern, errors[i].pattern) == 0) ||
            (text && errors[i].error && strstr(text, strerrordesc_np(errors[i].error))))
            return (int)i;
    return -1;
}

static int error_of(const json_t *record, const char **ret_text)
{
    *ret_text = json_string_value(json_object_get(record, record_type(record) == RECORD_log ? "text" : "message"));
    return error_in(*ret_text, json_string_value(json_object_get(record, "pattern")));
}

static bool is_no_space(int error)
{
    return error >= 0 && errors[error].error == ENOSPC;
}

static bool say_error(const struct job_end *end, struct cause *cause, const json_t *record, bool sure)
{
    const char *text;
    int error = error_of(record, &text);
    const struct layer_filesystem *system = is_no_space(error) ? full_disk(end) : NULL;
    if (error < 0)
        return false;
    add_evidence(cause, record);
    if (system) {
        add_evidence(cause, end->model->layers.health);
        say_full(cause, end, system, sure);
        return true;
    }
    put_cut(&cause->what, text);
    cause->note = NOTE(cause_said, .what = errors[error].what, .text = text_of(&cause->what), .sure = sure);
    return true;
}

/* What is printed when a program has ended already, or gives up, whatever the reason is. */
static bool is_consequence(const json_t *log)
{
    static const char *const patterns[] = {"mpi_abort", "killed", "abort", "traceback"};
    const char *pattern = json_string_value(json_object_get(log, "pattern"));
    for (size_t i = 0; pattern && i < sizeof patterns / sizeof *patterns; i++)
        if (strcmp(pattern, patterns[i]) == 0)
            return true;
    return false;
}

/* When the first process failed, or just before. */
static bool is_at_failure(const struct job_end *end, double seconds)
{
    double failed = chain_end(end, 0);
    return seconds >= failed - FAILURE_SECONDS && seconds <= failed + AT_ONCE_SECONDS;
}

/* Whether the job has survived it: it went on, and another error came when it failed. Of an error that is only the
 * consequence of another one: whether that is there. */
static bool is_outdone(const struct job_end *end, size_t at)
{
    const struct layer_list *list = &end->model->layers.errors;
    const json_t *record = last_of(list, at), *other;
    const char *text;
    int error = error_of(record, &text);
    bool consequence = is_consequence(record);
    if (error < 0 || !errors[error].once)
        return false;
    for (size_t i = 0; (other = last_of(list, i)) != NULL; i++) {
        double after = record_seconds(other) - record_seconds(record);
        bool later = i < at && error_of(other, &text) < 0;
        if (is_consequence(other) || !is_at_failure(end, record_seconds(other)))
            continue;
        if ((later && after > AT_ONCE_SECONDS) || (consequence && i > at && after >= -FAILURE_SECONDS))
            return true;
    }
    return false;
}

/* Did the process end because of it? One of the first thread that nobody caught ends Python with 1; one of another
 * thread ends only that. */
static bool ended_its_process(const struct job_end *end, const json_t *exception)
{
    pid_t pid = (pid_t)json_integer_value(json_object_get(exception, "pid"));
    int at = cause_chain_at(end, pid);
    const json_t *code = json_object_get(json_array_get(end->chain, at < 0 ? SIZE_MAX : (size_t)at), "exit_code");
    return json_integer_value(json_object_get(exception, "tid")) == pid && json_integer_value(code) == 1;
}

/* An error that nobody caught is why its process ended. What a log says may have been dealt with: it is only sure where
 * the disk was indeed full. */
static bool find_error(const struct job_end *end, struct cause *cause, bool sure)
{
    const struct layers *layers = &end->model->layers;
    const json_t *record;
    for (size_t i = 0; (record = last_of(&layers->uncaught, i)) != NULL; i++) {
        bool own = ended_its_process(end, record);
        if ((own || !sure) && is_near(end, record_seconds(record)) && say_error(end, cause, record, sure))
            return true;
    }
    for (size_t i = 0; (record = last_of(&layers->errors, i)) != NULL; i++) {
        const char *text;
        bool seen = is_no_space(error_of(record, &text)) && full_disk(end);
        if ((seen || !sure) && !is_outdone(end, i) && is_near(end, record_seconds(record)) &&
            say_error(end, cause, record, sure))
            return true;
    }
    return false;
}

/* What programs say where a credential is refused: they have no common words for it. */
static bool is_about_credentials(const char *text)
{
    static const char *const words[] = {"expired", "certificate", "credential", "authentication", "unauthorized"};
    for (size_t i = 0; text && i < sizeof words / sizeof *words; i++)
        if (strcasestr(text, words[i]))
            return true;
    return false;
}

static const json_t *credential_error(const struct job_end *end)
{
    const struct layers *layers = &end->model->layers;
    const struct layer_list *lists[] = {&layers->uncaught, &layers->logs};
    const char *const members[] = {"message", "text"};
    const json_t *record;
    for (size_t i = 0; i < 2; i++)
        for (size_t back = 0; (record = last_of(lists[i], back)) != NULL; back++)
            if (is_near(end, record_seconds(record)) &&
                is_about_credentials(json_string_value(json_object_get(record, members[i]))))
                return record;
    return NULL;
}

/* Sure where a program also says that it was refused. */
static bool find_credential(const struct job_end *end, struct cause *cause, bool sure)
{
    const json_t *expired = find_named(end, "credential_expired"), *error = expired ? credential_error(end) : NULL;
    if (!expired || (sure && !error))
        return false;
    put_cut(&cause->where, json_string_value(warning_field(expired, "credential")));
    put_cut(&cause->what, json_string_value(warning_field(expired, "path")));
    add_evidence(cause, expired);
    if (error)
        add_evidence(cause, error);
    cause->note =
        NOTE(cause_credential, .credential = text_of(&cause->where), .path = text_of(&cause->what), .sure = sure);
    return true;
}

/* "sort: ...", as programs begin what they say of errors. */
static bool begins_with_name(const char *text, const char *name)
{
    size_t len = name ? strlen(name) : 0;
    return text && len && strncmp(text, name, len) == 0 && text[len] == ':';
}

/* When the first process failed: an error, or what that process says itself. */
static bool find_log_in(const struct job_end *end, struct cause *cause, const struct layer_list *list, bool any)
{
    const char *name = json_string_value(json_object_get(json_array_get(end->chain, 0), "name"));
    const json_t *record;
    for (size_t i = 0; (record = last_of(list, i)) != NULL; i++) {
        const char *file = json_string_value(json_object_get(record, "file"));
        const char *text = json_string_value(json_object_get(record, "text"));
        bool error = line_level_of(json_string_value(json_object_get(record, "level"))) == LINE_ERROR;
        if (!is_at_failure(end, record_seconds(record)) || (!any && is_consequence(record)) ||
            (!error && !begins_with_name(text, name)))
            continue;
        put_cut(&cause->where, file ? file : "?");
        put_cut(&cause->what, text);
        add_evidence(cause, record);
        cause->note = NOTE(cause_log, .file = text_of(&cause->where), .text = text_of(&cause->what));
        return true;
    }
    return false;
}

static bool find_log(const struct job_end *end, struct cause *cause, bool sure)
{
    const struct layers *layers = &end->model->layers;
    for (int any = 0; any <= 1 && !sure; any++)
        if (find_log_in(end, cause, &layers->logs, any) || find_log_in(end, cause, &layers->errors, any))
            return true;
    return false;
}

/* ---- programs ---- */

/* Of the frame in which it crashed; functions of the C library have no line. */
static void put_crash_place(struct buf *out, const json_t *crash)
{
    const json_t *frames = json_object_get(crash, "frames"), *frame, *best = NULL;
    size_t index;
    json_array_foreach(frames, index, frame)
    {
        const json_t *line = json_object_get(frame, "line");
        if (json_is_string(json_object_get(frame, "function")) && (!best || json_is_integer(line)))
            best = frame;
        if (best && json_is_integer(line))
            break;
    }
    const char *function = json_string_value(json_object_get(best, "function"));
    const char *file = json_string_value(json_object_get(best, "file"));
    const char *reason = json_string_value(json_object_get(crash, "reason"));
    if (reason) {
        buf_puts(out, ", ");
        put_cut(out, reason);
    }
    if (function) {
        buf_puts(out, ", in ");
        put_cut(out, function);
    }
    if (function && file) {
        buf_puts(out, " at ");
        put_cut(out, text_base(file));
        buf_printf(out, ":%lld", (long long)json_integer_value(json_object_get(best, "line")));
    }
}

static bool find_crash(const struct job_end *end, struct cause *cause, bool sure)
{
    for (size_t i = json_array_size(end->crashes); i-- > 0;) {
        const json_t *crash = json_array_get(end->crashes, i);
        const char *name = json_string_value(json_object_get(crash, "name"));
        int signo = (int)json_integer_value(json_object_get(crash, "signal"));
        bool own = cause_chain_at(end, (pid_t)json_integer_value(json_object_get(crash, "pid"))) >= 0;
        if (sure ? !own : !is_near(end, record_seconds(crash)))
            continue;
        put_cut(&cause->where, name ? name : "?");
        put_crash_place(&cause->what, crash);
        add_evidence(cause, crash);
        cause->note = NOTE(cause_crash, .program = text_of(&cause->where),
                           .signal = text_signal(signo, cause->signal, sizeof cause->signal),
                           .place = text_of(&cause->what), .sure = sure);
        return true;
    }
    return false;
}

/* Exceptions that are a way to exit, or what a signal becomes. */
static bool is_error(const char *exception)
{
    return exception && strcmp(exception, "SystemExit") != 0 && strcmp(exception, "KeyboardInterrupt") != 0;
}

static bool find_exception(const struct job_end *end, struct cause *cause, bool sure)
{
    const json_t *record;
    for (size_t i = 0; (record = last_of(&end->model->layers.uncaught, i)) != NULL; i++) {
        struct python_exception_record row;
        record_read(record, RECORD_python_exception, &row);
        bool own = ended_its_process(end, record);
        if (!is_error(row.name) || (sure ? !own : !is_near(end, record_seconds(record))))
            continue;
        put_cut(&cause->what, row.name);
        if (row.message && *row.message) {
            buf_puts(&cause->what, ": ");
            put_cut(&cause->what, row.message);
        }
        put_cut(&cause->where, row.file ? text_base(row.file) : "?");
        if (row.line >= 0)
            buf_printf(&cause->where, ":%lld", (long long)row.line);
        add_evidence(cause, record);
        cause->note =
            NOTE(cause_exception, .exception = text_of(&cause->what), .place = text_of(&cause->where), .sure = sure);
        return true;
    }
    return false;
}

/* Signals by which a person or a batch system ends a job, and timeout(1). */
static bool was_ended(const struct job_end *end)
{
    int signo = first_signal(end), status = end_status(end);
    if (!signo && status > SHELL_SIGNAL)
        signo = status - SHELL_SIGNAL;
    return signo == SIGTERM || signo == SIGKILL || signo == SIGINT || signo == SIGHUP || signo == SIGQUIT ||
           signo == SIGABRT || status == TIMEOUT_STATUS;
}

static bool find_mpi_stall(const struct job_end *end, struct cause *cause, bool sure)
{
    const json_t *stall = end->model->stall;
    struct stall_record row;
    if (sure || !stall || !was_ended(end))
        return false;
    record_read(stall, RECORD_stall, &row);
    const json_t *warning = find_warning(end, NOTE_mpi_stalled);
    const char *finding = json_string_value(warning_field(warning, "finding"));
    put_cut(&cause->what, finding ? finding : row.why);
    add_evidence(cause, stall);
    if (finding)
        add_evidence(cause, warning);
    cause->note = NOTE(cause_mpi_stall, .ranks = row.ranks, .why = text_of(&cause->what));
    return true;
}

static bool find_standstill(const struct job_end *end, struct cause *cause, bool sure)
{
    const json_t *warning = find_named(end, "stands_still");
    if (sure || !warning || !was_ended(end))
        return false;
    put_cut(&cause->what, json_string_value(json_object_get(warning, "text")));
    add_evidence(cause, warning);
    cause->note = NOTE(cause_standstill, .text = text_of(&cause->what));
    return true;
}

/* It ends what it started, and then with a status of its own. */
static bool was_timed_out(const struct job_end *end)
{
    size_t index;
    json_t *process;
    json_array_foreach(end->chain, index, process)
    {
        const char *name = json_string_value(json_object_get(process, "name"));
        if (index && name && strcmp(name, "timeout") == 0 &&
            json_integer_value(json_object_get(process, "exit_code")) == TIMEOUT_STATUS)
            return true;
    }
    return false;
}

static bool find_killed(const struct job_end *end, struct cause *cause, bool sure)
{
    int signo = first_signal(end);
    if (sure || !signo || !was_ended(end))
        return false;
    const char *name = json_string_value(json_object_get(json_array_get(end->chain, 0), "name"));
    put_cut(&cause->where, name ? name : "the command");
    add_evidence(cause, end->model->end);
    if (was_timed_out(end)) {
        cause->note = NOTE(cause_limit, .program = text_of(&cause->where),
                           .signal = text_signal(signo, cause->signal, sizeof cause->signal),
                           .reason = "the time that timeout(1) was given");
        return true;
    }
    cause->note = NOTE(cause_killed, .program = text_of(&cause->where),
                       .signal = text_signal(signo, cause->signal, sizeof cause->signal));
    return true;
}

/* ---- scripts ---- */

static void put_place(struct buf *out, const struct line_fields *at)
{
    put_cut(out, at->file ? text_base(at->file) : "?");
    if (at->line >= 0)
        buf_printf(out, ":%lld", (long long)at->line);
}

/* A script that ended with the command's status right after it. */
static bool ended_with(const struct job_end *end, const struct command_failed_record *row, double seconds)
{
    int at = cause_chain_at(end, row->at.pid);
    const json_t *code = at >= 0 ? json_object_get(json_array_get(end->chain, (size_t)at), "exit_code") : NULL;
    return json_is_integer(code) && json_integer_value(code) == row->status &&
           fabs(chain_end(end, at) - seconds) <= AT_ONCE_SECONDS;
}

/* Of scripts that call each other, the innermost: its failure came first. */
static bool find_command(const struct job_end *end, struct cause *cause, bool sure)
{
    struct command_failed_record row, best = {0};
    const json_t *record, *found = NULL;
    for (size_t i = 0; (record = last_of(&end->model->layers.failures, i)) != NULL; i++) {
        record_read(record, RECORD_command_failed, &row);
        bool fits = ended_with(end, &row, record_seconds(record));
        if (sure ? !fits : !is_near(end, record_seconds(record)) || found)
            continue;
        if (!found || cause_chain_at(end, row.at.pid) < cause_chain_at(end, best.at.pid)) {
            found = record;
            best = row;
        }
    }
    if (!found)
        return false;
    put_place(&cause->where, &best.at);
    put_cut(&cause->what, best.at.command ? best.at.command : "its command is not known");
    add_evidence(cause, found);
    cause->note = NOTE(cause_command, .place = text_of(&cause->where), .status = (uint64_t)best.status,
                       .command = text_of(&cause->what), .sure = sure);
    return true;
}

/* Where the script was that started it. */
static void put_started_by(struct cause *cause, const struct job_end *end)
{
    const json_t *parent = json_array_get(end->chain, 1);
    const struct layer_place *place =
        layers_place(&end->model->layers, (pid_t)json_integer_value(json_object_get(parent, "pid")));
    double started = json_number_value(json_object_get(json_array_get(end->chain, 0), "start_seconds"));
    struct script_line_record row;
    if (!place || !place->line || record_seconds(place->line) < started - SEEN_SECONDS)
        return; /* it was there before, and may have gone on */
    record_read(place->line, RECORD_script_line, &row);
    buf_puts(&cause->what, ", when its script was at ");
    put_place(&cause->what, &row.at);
    add_evidence(cause, place->line);
}

static bool find_process(const struct job_end *end, struct cause *cause, bool sure)
{
    const json_t *first = json_array_get(end->chain, 0), *code = json_object_get(first, "exit_code");
    const char *name = json_string_value(json_object_get(first, "name"));
    if (sure || json_array_size(end->chain) < 2)
        return false;
    put_cut(&cause->where, name ? name : "?");
    if (json_is_integer(code))
        buf_printf(&cause->what, "with exit status %d", (int)json_integer_value(code));
    else
        buf_printf(&cause->what, "by %s", text_signal(first_signal(end), cause->signal, sizeof cause->signal));
    put_started_by(cause, end);
    cause->note =
        NOTE(cause_process, .program = text_of(&cause->where),
             .pid = (uint64_t)json_integer_value(json_object_get(first, "pid")), .how = text_of(&cause->what));
    return true;
}

/* ---- the rules ---- */

/* In order of strength. Each is asked twice: whether it is sure, then whether it is probable. */
static bool (*const rules[])(const struct job_end *end, struct cause *cause, bool sure) = {
    find_memory,    find_error,        find_credential, find_crash,  find_limit,   find_exception, find_full_disk,
    find_mpi_stall, find_memory_short, find_standstill, find_killed, find_command, find_log,       find_process,
};

void cause_find(const struct job_end *end, struct cause *ret_cause)
{
    *ret_cause = (struct cause){.evidence = json_array()};
    for (int sure = 1; sure >= 0; sure--)
        for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
            if (rules[i](end, ret_cause, sure)) {
                ret_cause->sure = sure;
                return;
            }
}

void cause_done(struct cause *cause)
{
    json_decref(cause->evidence);
    buf_done(&cause->where);
    buf_done(&cause->what);
}
