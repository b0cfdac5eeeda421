/* SPDX-License-Identifier: Apache-2.0 */
/* Reasons in programs and scripts: crashes, exceptions, nodes and ranks that failed, commands. */
#include "jobdir/layers/cause_internal.h"

#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "base/data/cleanup.h"
#include "jobdir/layers/culprit.h"
#include "jobdir/record/info.h"
#include "jobdir/text/text.h"
#include "symbols/python/python.h"

static const double SILENT_SECONDS = 900; /* that a batch system may take to find a node off: Slurm 300, unless told */

/* ---- programs ---- */

bool cause_is_library(const json_t *frame)
{
    static const char *const names[] = {"libc.so",      "libc-2",         "libstdc++.so", "libc++.so",
                                        "libc++abi.so", "libgcc_s.so",    "ld-linux",     "libpthread",
                                        "libpython",    "python3",        "libm.so",      "libm-2",
                                        "libmvec",      "libgfortran.so", "libffi.so",    NULL};
    const char *module = member_string(frame, "module");
    const char *file = member_string(frame, "file");
    if (file && strncmp(file, "/usr/include/", strlen("/usr/include/")) == 0)
        return true; /* a template of the standard library is compiled into the program */
    return module && text_begins_with_one(text_base(module), names);
}

/* Of Python's own modules and of packages, in C or Python. */
static bool is_of_package(const json_t *frame)
{
    const char *module = member_string(frame, "module");
    const char *file = member_string(frame, "file");
    if (json_is_string(json_object_get(frame, "language")))
        return file && strcmp(file, "<string>") != 0 && !python_is_own_code(file); /* python3 -c */
    return module && !python_is_own_code(module);
}

/* Of libraries nobody wants to see the lines: their callers are of interest, and known or not. */
void cause_put_crash_place(struct buf *out, const json_t *crash)
{
    const json_t *frames = json_object_get(crash, "frames"), *frame, *best = NULL, *any = NULL;
    size_t index;
    json_array_foreach(frames, index, frame)
    {
        const json_t *line = json_object_get(frame, "line");
        if (!json_is_string(json_object_get(frame, "function")))
            continue;
        any = any ? any : frame;
        if (cause_is_library(frame) || is_of_package(frame))
            continue;
        if (!best || json_is_integer(line))
            best = frame;
        if (json_is_integer(line))
            break;
    }
    const json_t *first = json_array_get(frames, 0), *last = json_array_get(frames, index ? index - 1 : 0);
    bool alone = json_equal(json_object_get(first, "pc"), json_object_get(last, "pc")); /* with what is inlined there */
    bool library = !best && !json_object_get(first, "language") && (alone || (any && cause_is_library(any)));
    best = best ? best : any ? any : first;
    const char *function = member_string(best, "function");
    const char *file = member_string(best, "file"), *module = member_string(best, "module");
    module = library && module && strstr(module, ".so") ? text_base(module) : NULL;
    const char *reason = member_string(crash, "reason");
    if (reason) {
        buf_puts(out, ", ");
        cause_cut(out, reason);
    }
    if (function || module) {
        buf_puts(out, ", in ");
        cause_cut(out, function ? function : module);
    }
    if (function && file && !module) {
        buf_puts(out, " at ");
        cause_cut(out, text_base(file));
        buf_printf(out, ":%lld", (long long)json_integer_value(json_object_get(best, "line")));
    } else if (function && module) {
        buf_puts(out, " of ");
        cause_cut(out, module);
    }
}

/* Where it was in its Python is not in it. */
static bool is_native(const json_t *frames)
{
    size_t index;
    json_t *frame;
    json_array_foreach(frames, index, frame)
    {
        if (json_object_get(frame, "language"))
            return false;
    }
    return true;
}

/* "; 0.4 s before it was seen at run.py:14 in main", of a program of Python whose stack is not known: where it was when it was looked at
 * last. */
static void put_seen(struct buf *out, struct cause *cause, const struct job_end *end, pid_t pid, double crashed)
{
    const struct layer_place *place = layers_place(&end->model->layers, pid);
    struct script_line_record row;
    if (!place || !place->line)
        return;
    record_read(place->line, RECORD_script_line, &row);
    double before = crashed - record_seconds(place->line);
    if (!row.at.language || strcmp(row.at.language, "python") != 0 || !row.at.file || before < 0)
        return;
    buf_printf(out, "; %.1f s before it was seen at ", before);
    cause_put_place(out, row.at.file, row.at.line);
    if (row.at.function) {
        buf_puts(out, " in ");
        cause_cut(out, row.at.function);
    }
    cause_add(cause, place->line);
}

/* What failed then began after it, or long after it ended: the job went on. */
static bool was_survived(const struct job_end *end, pid_t pid, double seconds)
{
    const json_t *start = json_object_get(json_array_get(end->chain, 0), "start_seconds");
    return cause_chain_at(end, pid) < 0 && json_array_size(end->chain) > 1 &&
           (json_number_value(start) > seconds || cause_chain_end(end, 0) > seconds + CAUSE_AT_ONCE_SECONDS);
}

/* Whether what failed first, a shell that ended by itself, said after it why, otherwise than by telling of the crash. */
static bool was_left_behind(const struct job_end *end, pid_t pid, const char *name, double seconds)
{
    _cleanup_(buf_done) struct buf said = BUF_INIT;
    const json_t *first = json_array_get(end->chain, 0);
    if (cause_chain_at(end, pid) >= 0 || !json_is_integer(json_object_get(first, "exit_code")) ||
        !cause_is_shell(first))
        return false;
    const json_t *last = cause_put_last_words(&said, end, 0);
    double quiet = json_number_value(json_object_get(last, "quiet_seconds"));
    return last && record_seconds(last) - quiet > seconds + SEEN_SECONDS && cause_is_complaint(cause_text(&said)) &&
           !(name && strstr(cause_text(&said), name)) && !strcasestr(cause_text(&said), "crash");
}

/* Did its parent end because of it? A shell that does not handle it ends with its status; others have their own, but
 * end at once. */
static bool ended_its_parent(const struct job_end *end, int at, int signo)
{
    const json_t *parent = json_array_get(end->chain, (size_t)at + 1), *code = json_object_get(parent, "exit_code");
    if (!parent || (json_is_integer(code) && json_integer_value(code) == SHELL_SIGNAL + signo))
        return true;
    return !cause_is_shell(parent) && cause_chain_end(end, at + 1) <= cause_chain_end(end, at) + CAUSE_AT_ONCE_SECONDS;
}

/* What failed first began after it: that may be because of the crash, or not. */
static void put_later(struct buf *out, const struct job_end *end)
{
    const char *name = cause_chain_name(end, 0);
    int status = cause_chain_status(json_array_get(end->chain, 0));
    if (!name || status == JOB_STATUS_UNKNOWN || !WIFEXITED(status))
        return;
    buf_puts(out, "; ");
    cause_cut(out, name);
    buf_printf(out, " (pid %d) then ended with exit status %d", (int)cause_chain_pid(end, 0), WEXITSTATUS(status));
}

static bool is_null(const json_t *crash)
{
    enum { PAGE = 4096 };
    const json_t *address = json_object_get(crash, "address");
    return address && json_integer_value(address) >= 0 && json_integer_value(address) < PAGE;
}

static bool find_crash(const struct job_end *end, struct cause *cause, bool sure, bool survived)
{
    for (size_t i = json_array_size(end->crashes); i-- > 0;) {
        const json_t *crash = json_array_get(end->crashes, i);
        const char *name = member_string(crash, "name");
        int signo = (int)json_integer_value(json_object_get(crash, "signal"));
        pid_t pid = (pid_t)json_integer_value(json_object_get(crash, "pid"));
        int at = cause_chain_at(end, pid);
        bool own = at >= 0 && ended_its_parent(end, at, signo);
        if (pid == end->outlived || (sure ? !own : !cause_is_near(end, record_seconds(crash))))
            continue;
        if (cause_fell_when_asked(end, name, signo, record_seconds(crash)))
            continue;
        double seconds = cause_before_end(end, pid, record_seconds(crash));
        if (was_survived(end, pid, seconds) != survived || (survived && cause_was_tolerated(end, seconds)) ||
            (!sure && was_left_behind(end, pid, name, seconds)))
            continue;
        if (signo == SIGABRT && cause_explains_abort(end, record_seconds(crash)))
            continue; /* that is why */
        cause_cut(&cause->where, name ? name : "?");
        cause_put_crash_place(&cause->what, crash);
        const json_t *frames = json_object_get(crash, "frames");
        if (is_native(frames) &&
            (json_array_size(frames) ||
             !cause_put_backtrace(&cause->what, end, cause_before_end(end, pid, record_seconds(crash)))))
            put_seen(&cause->what, cause, end, pid, seconds);
        if (signo == SIGSEGV)
            cause_put_address_limit(&cause->what, end->model, pid, is_null(crash),
                                    end->peak_rss ? end->peak_rss : end->largest_rss);
        if (survived)
            put_later(&cause->what, end);
        cause_add(cause, crash);
        if (signo == SIGABRT)
            cause_put_said(&cause->said, end, SAID_ERROR, record_seconds(crash));
        if (signo == SIGABRT && !cause->said.len)
            cause_add(cause, cause_put_complaint(&cause->said, end, record_seconds(crash), false));
        if (cause->said.len) { /* that is why */
            cause->note = NOTE(cause_gave_up, .program = cause_text(&cause->where), .text = cause_text(&cause->said),
                               .place = cause_text(&cause->what), .sure = sure);
            return true;
        }
        cause->note = NOTE(cause_crash, .program = cause_text(&cause->where),
                           .signal = text_signal(signo, cause->signal, sizeof cause->signal),
                           .place = cause_text(&cause->what), .sure = sure);
        return true;
    }
    return false;
}

bool cause_find_crash(const struct job_end *end, struct cause *cause, bool sure)
{
    return find_crash(end, cause, sure, false);
}

bool cause_find_survived_crash(const struct job_end *end, struct cause *cause, bool sure)
{
    return !sure && find_crash(end, cause, false, true);
}

/* Exceptions that are a way to exit, or what a signal becomes. */
static bool is_error(const char *exception)
{
    return exception && strcmp(exception, "SystemExit") != 0 && strcmp(exception, "KeyboardInterrupt") != 0;
}

/* The innermost line of the user's own code: where a library has raised it says little. */
static void put_exception_place(struct buf *out, const struct python_exception_record *row)
{
    const char *file = row->file;
    int64_t line = row->line;
    size_t index;
    const json_t *frame;
    json_array_foreach(row->traceback, index, frame)
    {
        const char *of = member_string(frame, "file");
        if (!of || !python_is_own_code(of))
            continue;
        file = of;
        line = json_integer_value(json_object_get(frame, "line"));
        break;
    }
    cause_put_place(out, file, line);
}

/* What it said. */
static void put_exception(struct buf *out, const struct python_exception_record *row)
{
    cause_cut(out, row->name);
    if (row->message && *row->message) {
        buf_puts(out, ": ");
        cause_cut(out, row->message);
    }
}

/* What had failed below the process, as a program that it ran by subprocess: the exception only tells its status. */
static void put_child_said(struct buf *out, const struct job_end *end, pid_t pid)
{
    _cleanup_(buf_done) struct buf said = BUF_INIT;
    const char *name = cause_chain_name(end, 0);
    if (cause_chain_at(end, pid) <= 0 || !name)
        return;
    cause_put_said_by(&said, end, name, cause_chain_end(end, 0));
    if (!said.len)
        return;
    cause_end_sentence(out);
    buf_printf(out, ", which said: %s", said.data);
}

bool cause_find_exception(const struct job_end *end, struct cause *cause, bool sure)
{
    const json_t *record;
    for (size_t i = 0; (record = cause_last(&end->model->layers.uncaught, i)) != NULL; i++) {
        struct python_exception_record row;
        record_read(record, RECORD_python_exception, &row);
        bool own = cause_ended_its_process(end, record);
        if (!is_error(row.name) || (cause_chain_at(end, row.pid) > 0 && cause_was_told(end)) ||
            (sure ? !own : !cause_is_near(end, record_seconds(record))) ||
            cause_was_tolerated(end, record_seconds(record)))
            continue;
        put_exception(&cause->what, &row);
        put_exception_place(&cause->where, &row);
        put_child_said(&cause->what, end, row.pid);
        cause_add(cause, record);
        cause->note = NOTE(cause_exception, .exception = cause_text(&cause->what), .place = cause_text(&cause->where),
                           .sure = sure);
        return true;
    }
    return false;
}

/* ---- nodes and ranks ---- */

static bool say_lost(const struct job_lost *lost, struct cause *cause, bool sure)
{
    cause->note =
        NOTE(cause_node_lost, .node = lost->node, .seconds = lost->seconds, .ranks = lost->ranks, .sure = sure);
    return true;
}

/* What its launcher, or ssh, then ends with says nothing of it. */
bool cause_find_lost(const struct job_end *end, struct cause *cause, bool sure)
{
    return sure && end->lost && !end->lost->silent && cause_is_of_end(end, end->lost->broke) &&
           say_lost(end->lost, cause, sure);
}

/* No ssh led there, as where a batch system starts the ranks. Nothing came from it before anything else failed, and before
 * whoever starts programs there ended them all: that takes minutes where nothing says that a node is off. */
bool cause_find_silent(const struct job_end *end, struct cause *cause, bool sure)
{
    const struct job_lost *lost = end->lost;
    const struct job_rank *rank = end->rank;
    const json_t *came = cause_signal_came(end),
                 *start = json_object_get(json_array_get(end->chain, 0), "start_seconds");
    double failed = cause_chain_end(end, 0);
    failed = came && record_seconds(came) < failed ? record_seconds(came) : failed;
    failed = rank && rank->status != JOB_STATUS_UNKNOWN && rank->seconds < failed ? rank->seconds : failed;
    return !sure && lost && lost->silent && lost->seconds <= failed - lost->silent &&
           lost->seconds >= failed - SILENT_SECONDS && lost->seconds >= json_number_value(start) &&
           !cause_warning(end, NOTE_task_stopped) && !cause_timed_out(end) && !cause_was_requested(end) &&
           say_lost(lost, cause, sure);
}

/* The job went on without the node; what else is known of its end is more probable. */
bool cause_find_lost_before(const struct job_end *end, struct cause *cause, bool sure)
{
    return !sure && end->lost && say_lost(end->lost, cause, sure);
}

/* What it said: an exception of its own, its crash's place, or a log. */
static void put_rank_said(struct buf *out, struct cause *cause, const struct job_end *end)
{
    const json_t *record, *crash = NULL;
    struct python_exception_record row;
    size_t index;
    json_t *each;
    for (size_t i = 0; (record = cause_last(&end->rank->model->layers.uncaught, i)) != NULL; i++) {
        record_read(record, RECORD_python_exception, &row);
        if (row.pid != end->rank->pid || !is_error(row.name))
            continue;
        buf_puts(out, ": ");
        put_exception(out, &row);
        cause_add(cause, record);
        return;
    }
    json_array_foreach(end->rank->crashes, index, each)
    {
        if (json_integer_value(json_object_get(each, "pid")) == end->rank->pid)
            crash = each;
    }
    if (crash) {
        cause_put_crash_place(out, crash);
        cause_add(cause, crash);
    }
    _cleanup_(buf_done) struct buf said = BUF_INIT;
    cause_put_said(&said, end, SAID_HINT, end->rank->seconds);
    if (!said.len && !crash && (end->rank->aborted || WIFEXITED(end->rank->status)))
        cause_add(cause, cause_put_complaint(&said, end, end->rank->seconds, end->rank->aborted));
    if (said.len)
        buf_printf(out, ": %s", said.data);
}

/* The first rank that failed by itself: its launcher then ends the others, and has a status of its own. */
bool cause_find_rank(const struct job_end *end, struct cause *cause, bool sure)
{
    const struct job_rank *rank = end->rank;
    if (!sure || !rank || rank->status == JOB_STATUS_UNKNOWN || cause_was_asked(end))
        return false;
    bool by_itself = rank->aborted || WIFEXITED(rank->status) || job_signal_is_fault(WTERMSIG(rank->status));
    if (!by_itself || !cause_is_of_end(end, rank->seconds))
        return false;
    if (rank->node) {
        buf_puts(&cause->where, " on node ");
        cause_cut(&cause->where, rank->node);
    }
    put_rank_said(&cause->said, cause, end);
    cause->note =
        NOTE(cause_rank, .rank = (uint64_t)rank->rank, .ranks = (uint64_t)rank->ranks,
             .node = cause_text(&cause->where), .how = rank->how, .said = cause_text(&cause->said), .sure = true);
    return true;
}

/* ---- scripts ---- */

#define PIPEFAIL ": a failure only because of pipefail"

/* A script that ended with the command's status right after it. */
static bool ended_with(const struct job_end *end, const struct command_failed_record *row, double seconds)
{
    int at = cause_chain_at(end, row->at.pid);
    const json_t *code = at >= 0 ? json_object_get(json_array_get(end->chain, (size_t)at), "exit_code") : NULL;
    return json_is_integer(code) && json_integer_value(code) == row->status &&
           fabs(cause_chain_end(end, at) - seconds) <= CAUSE_AT_ONCE_SECONDS;
}

/* By a signal that came from outside: no failure of its own. */
static bool was_interrupted(const struct job_end *end, const struct command_failed_record *row, double seconds)
{
    const json_t *came = cause_signal_came(end);
    double after = came ? seconds - record_seconds(came) : -1;
    return after >= -SEEN_SECONDS && (row->status > SHELL_SIGNAL || after <= CAUSE_AT_ONCE_SECONDS);
}

/* What was said when the command failed, by what it had started, too; but not what came after it, as of a trap of the script's exit. */
static void put_command_said(struct buf *out, struct cause *cause, const struct job_end *end,
                             const struct command_failed_record *row, double seconds)
{
    const char *command = row->at.command ? row->at.command : "";
    _cleanup_(buf_done) struct buf name = BUF_INIT;
    int script = cause_chain_at(end, row->at.pid);
    double start = cause_chain_start(end, 0);
    buf_append(&name, command, strcspn(command, " "));
    bool earlier = row->time > 0 && start > row->time; /* the process that failed first came after the command */
    if (!earlier)
        cause_put_said(out, end, SAID_ERROR, seconds);
    if (!out->len)
        cause_put_said_by(out, end, text_base(cause_text(&name)), seconds);
    if (!out->len && !earlier && script > 0)
        cause_add(cause, cause_put_last_words(out, end, script - 1));
}

/* What ended a process from outside says more than which command of a script that was, though only this is sure. */
static bool was_ended_from_outside(const struct job_end *end)
{
    static cause_rule *const rules[] = {cause_find_limit, cause_find_memory_short, cause_find_timeout,
                                        cause_find_killed};
    struct cause cause = {.evidence = json_array()};
    bool was = false;
    for (size_t i = 0; !was && i < sizeof rules / sizeof *rules; i++)
        was = rules[i](end, &cause, false);
    cause_done(&cause);
    return was;
}

/* Of scripts that call each other, the innermost: its failure came first. Where the command has said why it failed, that
 * is more than which one it was. */
bool cause_find_command(const struct job_end *end, struct cause *cause, bool sure)
{
    struct command_failed_record row, best = {0};
    _cleanup_(buf_done) struct buf said = BUF_INIT;
    const json_t *record, *found = NULL;
    if (sure && cause_says_why(end))
        return false;
    for (size_t i = 0; (record = cause_last(&end->model->layers.failures, i)) != NULL; i++) {
        record_read(record, RECORD_command_failed, &row);
        bool fits =
            ended_with(end, &row, record_seconds(record)) && !was_interrupted(end, &row, record_seconds(record));
        if (sure ? !fits : !cause_is_near(end, record_seconds(record)) || found)
            continue;
        if (!found || cause_chain_at(end, row.at.pid) < cause_chain_at(end, best.at.pid)) {
            found = record;
            best = row;
        }
    }
    if (!found || (sure && was_ended_from_outside(end)))
        return false;
    cause_put_place(&cause->where, best.at.file, best.at.line);
    cause_cut(&cause->what, best.at.command ? best.at.command : "its command is not known");
    cause_add(cause, found);
    int script = cause_chain_at(end, best.at.pid);
    const char *stage = json_string_value(
        json_object_get(json_array_get(end->chain, script > 0 ? (size_t)script - 1 : SIZE_MAX), "name"));
    if (stage && best.at.command && strstr(best.at.command, " | ")) {
        buf_puts(&cause->said, ", where ");
        cause_cut(&cause->said, stage);
        buf_puts(&cause->said,
                 best.status == SHELL_SIGNAL + SIGPIPE ? " had nobody to read on (SIGPIPE)" PIPEFAIL : " failed");
    }
    put_command_said(&said, cause, end, &best, record_seconds(found));
    if (said.len) {
        buf_puts(&cause->said, ", which said: ");
        buf_append(&cause->said, said.data, said.len);
    }
    cause->note = NOTE(cause_command, .place = cause_text(&cause->where), .status = (uint64_t)best.status,
                       .command = cause_text(&cause->what), .said = cause_text(&cause->said), .sure = sure);
    return true;
}

#define TICK_SECONDS 0.01 /* a process may have started so much later than the kernel says */

/* Where the script was that started it. */
static void put_started_by(struct cause *cause, const struct job_end *end, size_t at)
{
    const struct layer_place *place = cause_chain_place(end, at + 1);
    double started = cause_chain_start(end, at);
    struct script_line_record row;
    if (!place || !place->line)
        return;
    record_read(place->line, RECORD_script_line, &row);
    bool inside = row.how && strcmp(row.how, "inside") == 0; /* then each line is known, just before what it starts */
    if (record_seconds(place->line) < started + (inside ? -SEEN_SECONDS : TICK_SECONDS))
        return; /* it was there before, and may have gone on */
    buf_puts(&cause->what, ", when its script was at ");
    cause_put_place(&cause->what, row.at.file, row.at.line);
    cause_add(cause, place->line);
}

void cause_put_outlived(struct buf *out, const struct job_process *child)
{
    char room[32];
    struct starter_timeout timeout;
    if (starter_timed_out(child->name, child->argv, child->end - child->start, child->status, &timeout)) {
        buf_puts(out, "after timeout(1) had ended ");
        cause_cut(out, timeout.program ? timeout.program : "its program");
        if (timeout.seconds > 0)
            buf_printf(out, ", which took longer than %g s", timeout.seconds);
    } else {
        buf_puts(out, "after ");
        cause_cut(out, child->name);
        buf_printf(out, " (pid %d), which it had started, was ended by %s", (int)child->pid,
                   text_signal(WTERMSIG(child->status), room, sizeof room));
    }
}

/* A child that a signal had ended just before. The process has sent it, or could not go on without it: nobody knows. SIGTERM is what
 * children get that a process ends with itself. */
static bool put_ended_child(struct buf *out, const struct job_end *end, const json_t *process)
{
    const struct job_model *model = end->model;
    pid_t pid = (pid_t)json_integer_value(json_object_get(process, "pid"));
    double ended = json_number_value(json_object_get(process, "end_seconds"));
    for (size_t i = model->ended_count; i-- > 0;) {
        const struct job_process *child = &model->ended[i];
        bool outlived = end->outlived && child->pid == end->outlived;
        int signo = job_status_signal(child->status);
        if (!outlived && (child->ppid != pid || !signo || signo == SIGTERM || child->end > ended ||
                          child->end < ended - CAUSE_AT_ONCE_SECONDS || !cause_lived_on(process, signo)))
            continue;
        buf_puts(out, ", ");
        cause_put_outlived(out, child);
        return true;
    }
    return false;
}

/* Of the at-th of the chain, which was ended by SIGPIPE in a pipeline whose shell ends with that: the stage behind it, which the shell
 * started next, if that had ended well before. */
static void put_reader(struct buf *out, const struct job_end *end, size_t at)
{
    const struct job_model *model = end->model;
    const struct job_process *reader = NULL;
    const json_t *writer = json_array_get(end->chain, at), *shell = json_array_get(end->chain, at + 1);
    const pid_t parent = cause_chain_pid(end, at + 1), pid = cause_chain_pid(end, at);
    double start = cause_chain_start(end, at), ended = cause_chain_end(end, (int)at);
    if (cause_chain_status(writer) != SIGPIPE ||
        json_integer_value(json_object_get(shell, "exit_code")) != SHELL_SIGNAL + SIGPIPE)
        return;
    for (size_t i = 0; i < model->ended_count; i++) {
        const struct job_process *process = &model->ended[i];
        bool behind = process->ppid == parent && process->start <= ended && process->end >= start &&
                      (process->start > start || (process->start == start && process->pid > pid));
        if (behind && (!reader || process->start < reader->start ||
                       (process->start == reader->start && process->pid < reader->pid)))
            reader = process;
    }
    if (!reader || reader->status || reader->end > ended + SEEN_SECONDS)
        return;
    buf_puts(out, ", as ");
    cause_cut(out, reader->name);
    buf_printf(out, " (pid %d) read no more" PIPEFAIL, (int)reader->pid);
}

/* A fork of a shell that was to execute a program, and could not: it has the shell's name and command line. NULL: none; else what. */
static const char *not_executed(const struct job_end *end, size_t at)
{
    const json_t *process = json_array_get(end->chain, at), *shell = json_array_get(end->chain, at + 1);
    const char *name = member_string(shell, "name");
    const json_t *argv = json_object_get(shell, "argv");
    json_int_t code = json_integer_value(json_object_get(process, "exit_code"));
    if (!starter_is_shell(name, argv) || !json_is_array(argv) || !json_equal(argv, json_object_get(process, "argv")) ||
        (code != SHELL_NOT_EXECUTABLE && code != SHELL_NOT_FOUND))
        return NULL;
    return code == SHELL_NOT_FOUND ? ": its program was not found" : ": its program may not be executed";
}

/* Whether its shell started something else while it was there: in a pipeline. */
static bool ran_beside(const struct job_model *model, const struct job_process *process)
{
    bool beside = false;
    for (size_t i = 0; i < model->ended_count; i++) {
        const struct job_process *other = &model->ended[i];
        beside |= other != process && other->ppid == process->ppid && other->start < process->end &&
                  other->end > process->start;
    }
    return beside;
}

/* Of what its shell had started at the same time, as in a pipeline, and failed before it, or what a shell that ended by itself had started
 * just before: what that said, with its name. */
static const json_t *put_sibling(struct buf *out, const struct job_end *end, size_t at)
{
    const struct job_model *model = end->model;
    const json_t *last = model->layers.last_lines, *lines = json_object_get(last, "lines"), *line;
    const json_t *process = json_array_get(end->chain, at);
    pid_t pid = cause_chain_pid(end, at);
    bool shell = cause_is_shell(process);
    const struct job_process *first = NULL;
    const char *file = member_string(last, "file");
    size_t index;
    for (size_t i = 0; i < model->ended_count && !first; i++)
        first = model->ended[i].pid == pid ? &model->ended[i] : NULL;
    for (size_t i = 0; first && file && strcmp(file, "stderr") == 0 && i < model->ended_count; i++) {
        const struct job_process *other = &model->ended[i];
        size_t len = strlen(other->name);
        bool beside = other->ppid == first->ppid && fabs(other->start - first->start) <= SEEN_SECONDS;
        bool own = shell && other->ppid == pid && other->end >= first->end - CAUSE_FAILURE_SECONDS &&
                   (ran_beside(model, other) || !culprit_is_utility(other->name)) &&
                   !culprit_was_tested(model, other, pid);
        if (!(beside || own) || other == first || !culprit_has_failed(other) || culprit_is_answer(other) ||
            !WIFEXITED(other->status) || other->end > first->end)
            continue;
        json_array_foreach(lines, index, line)
        {
            const char *text = json_string_value(line);
            if (!text || strncmp(text, other->name, len) != 0 || text[len] != ':')
                continue;
            buf_printf(out, "; just before, %s (pid %d) failed with %d: ", other->name, (int)other->pid,
                       WEXITSTATUS(other->status));
            cause_cut(out, text);
            return last;
        }
    }
    return NULL;
}

/* What a launcher has on each node only passes on that a rank failed. */
bool cause_find_process(const struct job_end *end, struct cause *cause, bool sure)
{
    size_t at = 0;
    while (starter_of(cause_chain_name(end, at)) == STARTER_DAEMON)
        at++;
    const json_t *first = json_array_get(end->chain, at), *code = json_object_get(first, "exit_code");
    const char *name = member_string(first, "name");
    _cleanup_(buf_done) struct buf said = BUF_INIT, child = BUF_INIT, number = BUF_INIT, beside = BUF_INIT;
    const json_t *last = sure ? NULL : cause_put_last_words(&said, end, (int)at);
    const json_t *nan = sure ? NULL : cause_put_number(&number, end, cause_chain_end(end, (int)at));
    const json_t *sibling = sure || last || !first ? NULL : put_sibling(&beside, end, at);
    if (sure || !first ||
        (at + 1 == json_array_size(end->chain) && !last && !nan && !sibling && !put_ended_child(&child, end, first)))
        return false;
    const char *unexecuted = not_executed(end, at);
    buf_puts(&cause->where, unexecuted ? "a command of " : "");
    cause_cut(&cause->where, name ? name : "?");
    int signo = job_status_signal(cause_chain_status(first));
    if (json_is_integer(code))
        buf_printf(&cause->what, "with exit status %d", (int)json_integer_value(code));
    else
        buf_printf(&cause->what, "by %s",
                   text_signal(signo ? signo : cause_signal(end), cause->signal, sizeof cause->signal));
    buf_puts(&cause->what, unexecuted ? unexecuted : "");
    put_reader(&cause->what, end, at);
    if (!child.len)
        put_ended_child(&child, end, first);
    buf_puts(&cause->what, cause_text(&child));
    put_started_by(cause, end, at);
    size_t words = SIZE_MAX;
    if (last) {
        buf_puts(&cause->said, "; it said: ");
        words = cause->said.len;
        buf_puts(&cause->said, cause_text(&said));
        cause_add(cause, last);
        if (line_tells_of_memory(cause_text(&said)))
            cause_put_memory_limit(&cause->said, end, cause);
    } else {
        buf_puts(&cause->said, cause_text(&beside));
        if (!sibling && nan)
            buf_printf(&cause->said, "; %s", cause_text(&number));
        cause_add(cause, sibling ? sibling : nan);
    }
    cause->note = NOTE(cause_process, .program = cause_text(&cause->where), .pid = (uint64_t)cause_chain_pid(end, at),
                       .how = cause_text(&cause->what), .said = cause_text(&cause->said),
                       .words = words < cause->said.len ? cause_text(&cause->said) + words : "",
                       .sure = last && !child.len && at + 1 == json_array_size(end->chain));
    return true;
}
