/* SPDX-License-Identifier: Apache-2.0 */
/* What ended the job from outside: time limits, signals and who sent them, launchers; and what it stood still in until then. */
#include "jobdir/layers/cause_internal.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/data/cleanup.h"
#include "jobdir/record/info.h"
#include "jobdir/text/text.h"

enum { WHY_COLUMNS = 400 };
static const double OUTLIVED_SECONDS = 2;
static const double IDLE_SHARE = 0.1; /* of a processor */
static const double LEFT_SECONDS = 5; /* that a launcher may take to see that a rank has left: Open MPI takes 1 */

/* ---- timeout(1) ---- */

/* timeout(1) of the chain that ended what it had started: where it is there, and what that was; -1: none. */
static int timed_out(const struct job_end *end, struct starter_timeout *ret_timeout)
{
    size_t index;
    json_t *process;
    json_array_foreach(end->chain, index, process)
    {
        double start = json_number_value(json_object_get(process, "start_seconds"));
        if (!starter_timed_out(member_string(process, "name"), json_object_get(process, "argv"),
                               cause_chain_end(end, (int)index) - start, cause_chain_status(process), ret_timeout))
            continue;
        const json_t *child = index ? json_array_get(end->chain, index - 1) : NULL;
        const char *name = member_string(child, "name");
        ret_timeout->program = name ? name : ret_timeout->program ? ret_timeout->program : "its program";
        return (int)index;
    }
    return -1;
}

bool cause_timed_out(const struct job_end *end)
{
    struct starter_timeout timeout;
    return timed_out(end, &timeout) >= 0;
}

/* ---- standing still until it was ended ---- */

/* When the time of timeout(1) was over that has ended it; -1: none has, or that is not known. */
static double timeout_seconds(const struct job_end *end)
{
    struct starter_timeout timeout;
    int at = timed_out(end, &timeout);
    const json_t *start = json_object_get(json_array_get(end->chain, (size_t)at), "start_seconds");
    return start && timeout.seconds >= 0 ? json_number_value(start) + timeout.seconds : -1;
}

bool cause_fell_when_asked(const struct job_end *end, const char *name, int signo, double seconds)
{
    const json_t *came = cause_signal_came(end);
    double asked = came ? record_seconds(came) : timeout_seconds(end);
    enum starter starter = starter_of(name);
    return (starter == STARTER_LAUNCHER || starter == STARTER_DAEMON) && job_signal_is_fault(signo) && asked >= 0 &&
           asked <= seconds + SEEN_SECONDS;
}

/* The first that failed is such a launcher. */
static bool launcher_fell(const struct job_end *end)
{
    const char *name = cause_chain_name(end, 0);
    return cause_fell_when_asked(end, name, cause_signal(end), cause_chain_end(end, 0));
}

/* The first that failed is a launcher, after a signal that asked the job to end: it then has a status of its own. */
static bool launcher_was_asked(const struct job_end *end)
{
    const char *name = cause_chain_name(end, 0);
    return name && starter_of(name) == STARTER_LAUNCHER && !end->rank && cause_signal_came(end);
}

/* Signals by which a person or a batch system ends a job, and timeout(1). */
static bool was_ended(const struct job_end *end)
{
    int signo = cause_signal(end), status = cause_end_status(end);
    if (!signo && status > SHELL_SIGNAL)
        signo = status - SHELL_SIGNAL;
    if (!signo && (end->stuck || end->late) && (status == SIGTERM || status == SIGKILL))
        signo = status; /* mpiexec of MPICH ends with the number of the signal that ended its ranks */
    return signo == SIGTERM || signo == SIGKILL || signo == SIGINT || signo == SIGHUP || signo == SIGQUIT ||
           signo == SIGABRT || status == TIMEOUT_STATUS || cause_timed_out(end) || launcher_fell(end) ||
           launcher_was_asked(end);
}

static void put_ended_by(struct buf *out, const struct job_end *end);

/* Where an error had ended the part of one of them, which then waited in MPI_Finalize, that is the reason. */
static bool say_mpi_stall(const struct job_end *end, struct cause *cause, uint64_t ranks, const char *why)
{
    json_t *error = end->left > 0 ? cause_error_of(end, end->left) : NULL;
    _cleanup_(buf_done) struct buf by = BUF_INIT, then = BUF_INIT;
    const int shown = (int)text_fit(why, strcspn(why, "\n"), WHY_COLUMNS);
    put_ended_by(&by, end);
    if (error) {
        buf_printf(&then, "; then stuck in MPI, until it was ended%s: %.*s", cause_text(&by), shown, why);
        cause_say_log(end, cause, error, cause_text(&then));
        json_decref(error);
        return true;
    }
    cause_cut(&cause->where, cause_text(&by));
    buf_append(&cause->what, why, (size_t)shown);
    cause->note =
        NOTE(cause_mpi_stall, .ranks = ranks, .by = cause_text(&cause->where), .why = cause_text(&cause->what));
    return true;
}

bool cause_find_mpi_stall(const struct job_end *end, struct cause *cause, bool sure)
{
    const json_t *stall = end->model->stall;
    struct stall_record row;
    if (sure || !(stall || end->stuck || end->late) || !was_ended(end))
        return false;
    /* so long as --mpi-stall says, though that may be less than explains an end by itself */
    const char *late = end->late ? end->late : stall && end->late_ranks ? end->waited : NULL;
    if (late && !end->stuck) {
        put_ended_by(&cause->where, end);
        buf_append(&cause->what, late, text_fit(late, strcspn(late, "\n"), WHY_COLUMNS));
        cause_add(cause, stall);
        cause->note = NOTE(cause_mpi_late, .ranks = end->late_ranks, .text = cause_text(&cause->what),
                           .by = cause_text(&cause->where));
        return true;
    }
    if (!stall) /* not for so long that it was recorded while it ran */
        return say_mpi_stall(end, cause, end->stuck_ranks, end->stuck);
    record_read(stall, RECORD_stall, &row);
    const json_t *warning = cause_warning(end, NOTE_mpi_stalled);
    const char *finding = json_string_value(cause_warning_field(warning, "finding"));
    cause_add(cause, stall);
    if (finding)
        cause_add(cause, warning);
    /* the end has names, too */
    return say_mpi_stall(end, cause, row.ranks, end->stuck ? end->stuck : finding ? finding : row.why);
}

/* Where a script was for long, until it was ended, as it did nothing. NULL: it was not. */
static const json_t *long_at(const struct job_end *end, const struct layer_place *place)
{
    static const double LONG = 10, AT_END = 2; /* seconds */
    bool there = false;
    if (!place->line || (place->over > 0 && place->over < end->seconds - AT_END) ||
        record_seconds(place->line) > end->seconds - LONG)
        return NULL;
    for (size_t i = 0; i < end->model->ended_count; i++)
        there |= end->model->ended[i].pid == place->pid && end->model->ended[i].end >= end->seconds - AT_END;
    return there ? place->line : NULL;
}

/* "; for 81 s before, 2 processes were at fit.py:5 in work (SemLock.__enter__)": where most of Python were, else the last of the shells. */
static void put_was_at(struct buf *out, const struct job_end *end)
{
    const struct layer_place *best = NULL;
    struct script_line_record row, its;
    size_t most = 0;
    if (end->model->alive_share >= IDLE_SHARE)
        return;
    for (const struct layer_place *place = end->model->layers.places; place; place = place->hh.next) {
        size_t same = 0;
        if (!long_at(end, place))
            continue;
        record_read(place->line, RECORD_script_line, &row);
        bool python = row.at.language && strcmp(row.at.language, "python") == 0;
        for (const struct layer_place *other = end->model->layers.places; other && python; other = other->hh.next)
            if (long_at(end, other)) {
                record_read(other->line, RECORD_script_line, &its);
                same +=
                    its.at.line == row.at.line && its.at.file && row.at.file && strcmp(its.at.file, row.at.file) == 0;
            }
        if (same >= most) {
            best = place;
            most = same;
        }
    }
    if (!best)
        return;
    record_read(best->line, RECORD_script_line, &row);
    buf_printf(out, "; for %.0f s before, ", end->seconds - record_seconds(best->line));
    if (most > 1)
        buf_printf(out, "%zu processes were at ", most);
    else
        buf_puts(out, most ? "its program was at " : "its script was at ");
    cause_put_place(out, row.at.file, row.at.line);
    const json_t *thread = json_array_get(json_object_get(best->stack, "threads"), 0);
    const char *inner = member_string(json_array_get(json_object_get(thread, "frames"), 0), "function");
    if (row.at.command) {
        buf_puts(out, ": ");
        cause_cut(out, row.at.command);
    } else if (row.at.function) {
        buf_puts(out, " in ");
        cause_cut(out, row.at.function);
    }
    if (inner && row.at.function && strcmp(inner, row.at.function) != 0 &&
        record_seconds(best->stack) >= record_seconds(best->line)) {
        buf_puts(out, " (");
        cause_cut(out, inner);
        buf_putc(out, ')');
    }
}

/* For some seconds before it was ended, ranks waited: that may be why it was; else where scripts were. */
static void put_waited(struct buf *out, const struct job_end *end)
{
    if (end->waited && !end->model->stall)
        buf_printf(out, "; before: %.*s", (int)text_fit(end->waited, strcspn(end->waited, "\n"), WHY_COLUMNS),
                   end->waited);
    else if (!end->model->stall && !end->stuck && !end->late)
        put_was_at(out, end);
}

/* ---- time limits ---- */

/* timeout(1) has ended what did nothing, and had lost workers before: it waited for what they owed it. */
static bool put_lost_before_timeout(struct buf *out, const struct job_end *end)
{
    return end->model->alive_share < IDLE_SHARE && cause_timed_out(end) &&
           workers_put_lost(out, end->model, cause_chain_end(end, 0) - CAUSE_AT_ONCE_SECONDS, false) && !out->failed;
}

bool cause_stood_still(const struct job_end *end)
{
    _cleanup_(buf_done) struct buf lost = BUF_INIT;
    return end->stuck || end->late || end->model->stall || cause_named(end, "stands_still") ||
           cause_warning(end, NOTE_stuck) || put_lost_before_timeout(&lost, end);
}

/* The time of timeout(1) was over: sure, unless it stood still, which is why it took so long. */
bool cause_find_timeout(const struct job_end *end, struct cause *cause, bool sure)
{
    struct starter_timeout timeout;
    if (timed_out(end, &timeout) < 0 || (sure && (timeout.seconds < 0 || cause_stood_still(end))))
        return false;
    cause_cut(&cause->where, timeout.program);
    if (timeout.seconds >= 0)
        buf_printf(&cause->what, "the %g s that timeout(1) gave it", timeout.seconds);
    else
        buf_puts(&cause->what, "the time that timeout(1) was given");
    if (timeout.more >= 0)
        buf_printf(&cause->what, ", and %g s more after the first signal", timeout.more);
    put_waited(&cause->what, end);
    cause_add(cause, end->model->end);
    cause->note = NOTE(cause_limit, .program = cause_text(&cause->where),
                       .signal = text_signal(timeout.signo, cause->signal, sizeof cause->signal),
                       .reason = cause_text(&cause->what), .sure = sure);
    return true;
}

/* ---- idle until it was ended ---- */

/* Processes began after that: it was not the end, unless they ended it. */
static bool went_on(const struct job_end *end, double seconds)
{
    for (size_t i = 0; i < end->model->ended_count; i++)
        if (end->model->ended[i].start > seconds && !starter_kill_signal(end->model->ended[i].argv))
            return true;
    return false;
}

/* What a request sends: the signal, of those that end what does not handle them (0: none), and by what way of scry, which says
 * so before the signal (job_send_signal); NULL: by a tool. */
#define ASKED_FOR "somebody asked for it "

struct asked {
    int signo;
    const char *way;
};

static struct asked asked_of(const char *request)
{
    static const int going_on[] = {SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT, SIGCHLD, SIGURG, SIGWINCH};
    static const struct {
        const char *word, *way;
    } ways[] = {{"\"page\"", ASKED_FOR "on a page of scry"},
                {"\"stop\"", ASKED_FOR "by scry stop"},
                {"\"signal\"", ASKED_FOR "by scry signal"}};
    const char *at = request ? strstr(request, "send_signal(") : NULL, *comma = NULL, *word = NULL;
    struct asked asked = {0};
    for (bool in = false; at && *at && (in || *at != ')'); at += 1 + (in && *at == '\\' && at[1])) {
        if (*at == '"' && (in = !in))
            word = at;
        if (*at == ',' && !in)
            comma = at;
    }
    asked.signo = comma ? atoi(comma + 1) : 0;
    for (size_t i = 0; i < sizeof going_on / sizeof *going_on; i++)
        asked.signo = asked.signo == going_on[i] ? 0 : asked.signo;
    for (size_t i = 0; word && comma && i < sizeof ways / sizeof *ways; i++)
        if (strncmp(word, ways[i].word, strlen(ways[i].word)) == 0)
            asked.way = ways[i].way;
    return asked;
}

/* The last request, where the signal that it sent may be why the job ended; else without one. SIGUSR1 and SIGUSR2 announce
 * things that a job goes on after, if they do not end it. */
static struct asked asked_at_end(const struct job_end *end)
{
    const json_t *request = end->model->request;
    struct asked asked = asked_of(member_string(request, "request"));
    bool announces = asked.signo == SIGUSR1 || asked.signo == SIGUSR2;
    if (!cause_is_near(end, record_seconds(request)) || (announces && cause_signal(end) != asked.signo))
        asked.signo = 0;
    return asked;
}

/* "by scry stop", "by timeout(1) after 16 s", "by SIGTERM from bash (pid 7)". */
static void put_ended_by(struct buf *out, const struct job_end *end)
{
    char room[32];
    struct starter_timeout timeout;
    const json_t *came = cause_signal_came(end);
    const char *name = json_string_value(cause_warning_field(came, "signal")),
               *sender = json_string_value(cause_warning_field(came, "sender"));
    int signo = cause_signal(end);
    struct asked asked = asked_at_end(end);
    int at = timed_out(end, &timeout);
    /* what does not end by that signal may have been ended by another one, much later */
    bool outlived = at >= 0 && timeout.more < 0 && cause_chain_end(end, at) > timeout_seconds(end) + OUTLIVED_SECONDS;
    if (asked.way && asked.signo) {
        buf_printf(out, " %s", asked.way + strlen(ASKED_FOR));
    } else if (at >= 0 && timeout.seconds >= 0 && !outlived) {
        buf_printf(out, " by timeout(1) after %g s", timeout.seconds);
    } else if (name && sender) {
        buf_printf(out, " by %s from ", name);
        cause_cut(out, sender);
    } else if (signo) {
        buf_printf(out, " by %s", text_signal(signo, room, sizeof room));
    }
}

/* Whose workers had failed before, for what they owe it may have waited. */
static void put_lost_workers(struct buf *out, const struct job_end *end, double seconds)
{
    _cleanup_(buf_done) struct buf lost = BUF_INIT;
    if (workers_put_lost(&lost, end->model, seconds, false) && !lost.failed)
        buf_printf(out, "; before, %s", lost.data);
}

/* While it stood still it was seen why. */
static bool say_stuck(const struct job_end *end, struct cause *cause)
{
    const json_t *stuck = cause_warning(end, NOTE_stuck);
    if (!stuck || went_on(end, record_seconds(stuck)))
        return false;
    put_ended_by(&cause->where, end);
    cause_cut(&cause->what, json_string_value(cause_warning_field(stuck, "text")));
    put_lost_workers(&cause->what, end, record_seconds(stuck));
    _cleanup_(buf_done) struct buf said = BUF_INIT;
    if (workers_put_exception(&said, end->model, record_seconds(stuck)) && !said.failed)
        buf_printf(&cause->what, "; it had said: %s", said.data);
    cause_add(cause, stuck);
    cause->note = NOTE(cause_stuck, .deadlock = json_is_true(cause_warning_field(stuck, "deadlock")),
                       .by = cause_text(&cause->where), .text = cause_text(&cause->what));
    return true;
}

bool cause_find_standstill(const struct job_end *end, struct cause *cause, bool sure)
{
    const json_t *warning = cause_named(end, "stands_still");
    if (sure || !was_ended(end))
        return false;
    if (say_stuck(end, cause))
        return true;
    if (!warning && !put_lost_before_timeout(&cause->what, end))
        return false;
    if (!warning) {
        put_ended_by(&cause->where, end);
        cause_add(cause, end->model->end);
        cause->note =
            NOTE(cause_stuck, .deadlock = false, .by = cause_text(&cause->where), .text = cause_text(&cause->what));
        return true;
    }
    cause_cut(&cause->what, member_string(warning, "text"));
    put_lost_workers(&cause->what, end, record_seconds(warning));
    cause_add(cause, warning);
    cause->note = NOTE(cause_standstill, .text = cause_text(&cause->what));
    return true;
}

/* ---- signals and who sent them ---- */

/* SIGUSR1 and SIGUSR2 announce things that a job goes on after. */
const json_t *cause_signal_came(const struct job_end *end)
{
    const json_t *came = cause_warning(end, NOTE_signal_came);
    const char *name = json_string_value(cause_warning_field(came, "signal"));
    if (!came || !cause_is_near(end, record_seconds(came)))
        return NULL;
    bool announces = name && strncmp(name, "SIGUSR", strlen("SIGUSR")) == 0;
    return announces && record_seconds(came) < end->seconds - CAUSE_AT_ONCE_SECONDS ? NULL : came;
}

static bool say_signal(const struct job_end *end, struct cause *cause, const json_t *record, const char *why)
{
    static const double AT_THE_END = 0.05;
    double before = end->seconds - record_seconds(record);
    cause_add(cause, record);
    if (before >= AT_THE_END)
        buf_printf(&cause->said, " %.1f s before the end", before);
    if (*why)
        buf_printf(&cause->said, ": %s", why);
    if (end->model->alive_share < IDLE_SHARE) /* so it may have been ended because it did nothing */
        put_lost_workers(&cause->said, end, record_seconds(record) - CAUSE_AT_ONCE_SECONDS);
    put_waited(&cause->said, end);
    cause->note = NOTE(cause_signal, .signal = cause->signal, .sender = cause_text(&cause->where),
                       .seconds = before > 0 ? before : 0, .why = why, .more = cause_text(&cause->said));
    return true;
}

/* Who could have sent it; "": the sender says it. The kernel sends these for a terminal; "(pid N)" stands behind the name of any program. */
static const char *why_sent(const char *signal, const char *sender)
{
    static const struct {
        const char *signal, *sender, *why;
    } keys[] = {
        {"SIGINT", SENDER_TERMINAL, "somebody pressed Ctrl-C"},
        {"SIGQUIT", SENDER_TERMINAL, "somebody pressed Ctrl-\\"},
        {"SIGHUP", SENDER_KERNEL, "its terminal was closed"},
        {"SIGHUP", SENDER_KERNEL_ALONE, "the shell that had started it ended while a process of it was stopped"},
    };
    static const char *const batch[] = {"slurm", "pbs", "sge", "condor", "sbatchd", "flux"};
    for (size_t i = 0; signal && sender && i < sizeof keys / sizeof *keys; i++)
        if (strcmp(signal, keys[i].signal) == 0 && strcmp(sender, keys[i].sender) == 0)
            return keys[i].why;
    /* "(pid N)" stands behind the name of any program */
    bool named = sender && *sender && sender[strlen(sender) - 1] == ')';
    for (size_t i = 0; named && i < sizeof batch / sizeof *batch; i++)
        named = strncmp(sender, batch[i], strlen(batch[i])) != 0;
    return named ? "" : "a batch system's limit, or somebody";
}

/* `why` NULL: that is for the sender to say. */
static bool say_came(const struct job_end *end, struct cause *cause, const json_t *came, const char *why)
{
    const char *name = json_string_value(cause_warning_field(came, "signal"));
    const char *sender = json_string_value(cause_warning_field(came, "sender"));
    cause_cut(&cause->where, sender);
    snprintf(cause->signal, sizeof cause->signal, "%s", name ? name : "a signal");
    return say_signal(end, cause, came, why ? why : why_sent(name, sender));
}

bool cause_find_signal(const struct job_end *end, struct cause *cause, bool sure)
{
    const json_t *came = sure ? NULL : cause_signal_came(end);
    return came && say_came(end, cause, came, NULL);
}

static bool say_asked(const struct job_end *end, struct cause *cause, int signo, const json_t *record, const char *who,
                      bool remote, bool sure)
{
    const char *name = cause_chain_name(end, 0);
    cause_add(cause, record);
    cause_cut(&cause->where, name ? name : "the command");
    put_waited(&cause->what, end);
    cause->note = NOTE(cause_asked, .program = cause_text(&cause->where),
                       .signal = text_signal(signo, cause->signal, sizeof cause->signal), .who = who, .remote = remote,
                       .sure = sure, .why = cause_text(&cause->what));
    return true;
}

/* Its runner of tasks has asked it to end, and killed it if it did not. */
bool cause_find_task(const struct job_end *end, struct cause *cause, bool sure)
{
    const json_t *stopped = sure ? NULL : cause_warning(end, NOTE_task_stopped), *came = cause_signal_came(end);
    const char *why = json_string_value(cause_warning_field(stopped, "why"));
    int killed = cause_signal(end);
    if (why && (killed == SIGTERM || killed == SIGKILL)) {
        buf_puts(&cause->what, "because ");
        cause_cut(&cause->what, why);
        return say_asked(end, cause, killed, stopped, "scry-tasks", false, false);
    }
    if (!why || !came)
        return false;
    cause_cut(&cause->what, why);
    cause_add(cause, stopped);
    return say_came(end, cause, came, cause_text(&cause->what));
}

/* The launcher that has ended what it had started, from there on in the chain, for a reason of its own, rather than its daemon on
 * that node; NULL. What a signal has ended it passes on as its status, as shells do, or as the number alone. */
static const json_t *launcher_of(const struct job_end *end, int signo, size_t from)
{
    const json_t *daemon = NULL;
    size_t index;
    json_t *process;
    json_array_foreach(end->chain, index, process)
    {
        enum starter starter = starter_of(member_string(process, "name"));
        json_int_t status = json_integer_value(json_object_get(process, "exit_code"));
        if (index < from || !status || (starter != STARTER_LAUNCHER && starter != STARTER_DAEMON))
            continue;
        bool passes = status == signo || status == SHELL_SIGNAL + signo;
        if (starter == STARTER_LAUNCHER)
            return passes ? NULL : process;
        daemon = daemon || passes ? daemon : process;
    }
    return daemon;
}

/* Killed by what a tool had asked a monitor to send, or ended after it with a status of its own; or its launcher was asked, which
 * ends its ranks as it likes. */
bool cause_find_asked(const struct job_end *end, struct cause *cause, bool sure)
{
    const json_t *request = end->model->request;
    const char *who = member_string(request, "who");
    const char *serial = member_string(request, "serial");
    struct asked asked = asked_at_end(end);
    int killed = cause_signal(end);
    bool remote = serial && *serial;
    bool by_it = killed == asked.signo, passed_on = !killed || launcher_of(end, killed, 1);
    if (sure || !who || !asked.signo || !(by_it || passed_on))
        return false;
    if (!by_it) {
        cause_cut(&cause->where, who);
        text_signal(asked.signo, cause->signal, sizeof cause->signal);
        return say_signal(end, cause, request,
                          asked.way ? asked.way
                          : remote  ? "it was sent through a broker"
                                    : "it was sent by a tool on its node");
    }
    buf_puts(&cause->what, asked.way ? "because " : "by ");
    cause_cut(&cause->what, asked.way ? asked.way : who);
    if (!asked.way)
        buf_puts(&cause->what, remote ? ", who sent it through a broker" : ", a tool on its node");
    else if (remote) {
        buf_puts(&cause->what, ", with the key ");
        cause_cut(&cause->what, who);
    }
    return say_asked(end, cause, asked.signo, request, who, remote, asked.way);
}

bool cause_was_requested(const struct job_end *end)
{
    return asked_at_end(end).signo;
}

/* What its parent has ended itself is not in the chain. */
bool cause_was_told(const struct job_end *end)
{
    const json_t *parent = json_array_get(end->chain, 1);
    int signo = json_integer_value(json_object_get(json_array_get(end->chain, 0), "signal")) ? cause_signal(end) : 0;
    return parent && (signo == SIGKILL || signo == SIGTERM || signo == SIGINT || signo == SIGHUP) &&
           json_is_integer(json_object_get(parent, "exit_code")) && cause_lived_on(parent, signo);
}

bool cause_was_asked(const struct job_end *end)
{
    return cause_was_requested(end) || cause_signal_came(end) || cause_warning(end, NOTE_task_stopped) ||
           cause_timed_out(end);
}

/* ---- launchers ---- */

/* What launchers end the other ranks by. */
static bool is_killed_by_launcher(int status)
{
    return job_status_signal(status) == SIGTERM || job_status_signal(status) == SIGKILL;
}

bool cause_launched_ended(const struct job_end *end)
{
    const json_t *first = json_array_get(end->chain, 0), *process;
    int status = cause_chain_status(first);
    enum starter starter = starter_of(member_string(first, "name"));
    bool launched = false;
    size_t index;
    json_array_foreach(end->chain, index, process)
    {
        enum starter its = starter_of(member_string(process, "name"));
        launched = launched || (index && (its == STARTER_LAUNCHER || its == STARTER_DAEMON));
    }
    return cause_timed_out(end) ||
           (was_ended(end) && (end->stuck || end->late || end->model->stall || cause_signal_came(end))) ||
           (end->rank && end->rank->status != JOB_STATUS_UNKNOWN) ||
           (launched && status != JOB_STATUS_UNKNOWN && !is_killed_by_launcher(status) && starter != STARTER_LAUNCHER &&
            starter != STARTER_DAEMON);
}

bool cause_find_left(const struct job_model *model, pid_t starter, struct cause_left *ret_left)
{
    const struct job_process *by = NULL;
    *ret_left = (struct cause_left){0};
    for (size_t i = 0; i < model->ended_count; i++) {
        const struct job_process *process = &model->ended[i];
        by = process->pid == starter ? process : by;
        if (process->ppid == starter && is_killed_by_launcher(process->status) &&
            (!ret_left->killed || process->end < ret_left->killed->end))
            ret_left->killed = process;
    }
    enum starter kind = starter_of(by ? by->name : NULL);
    if (!ret_left->killed || (kind != STARTER_LAUNCHER && kind != STARTER_DAEMON))
        return false;
    ret_left->launcher = by->name;
    for (size_t i = 0; i < model->ended_count; i++) {
        const struct job_process *process = &model->ended[i], *killed = ret_left->killed;
        double before = killed->end - process->end;
        if (kind == STARTER_DAEMON && process->pid == by->ppid && starter_of(process->name) == STARTER_LAUNCHER)
            ret_left->launcher = process->name;
        if (process->ppid == starter && !process->status && strcmp(process->name, killed->name) == 0 && before >= 0 &&
            before <= LEFT_SECONDS && (!ret_left->left || process->end < ret_left->left->end))
            ret_left->left = process;
    }
    return ret_left->left != NULL;
}

/* Of MPI nothing was counted: else the ranks are known. */
static bool say_left(const struct job_end *end, struct cause *cause)
{
    struct cause_left left;
    _cleanup_(buf_done) struct buf said = BUF_INIT;
    pid_t starter = cause_chain_pid(end, 1);
    if (end->rank || cause_was_asked(end) || !cause_find_left(end->model, starter, &left))
        return false;
    cause_cut(&cause->where, left.left->name);
    cause_cut(&cause->what, left.launcher);
    cause_put_said(&said, end, SAID_HINT, left.left->end);
    if (said.len)
        buf_printf(&cause->said, ": %s", said.data);
    cause->note = NOTE(cause_left, .program = cause_text(&cause->where), .pid = (uint64_t)left.left->pid,
                       .launcher = cause_text(&cause->what),
                       .signal = text_signal(WTERMSIG(left.killed->status), cause->signal, sizeof cause->signal),
                       .said = cause_text(&cause->said));
    return true;
}

/* Mostly both have one name. */
static void put_worker(struct buf *out, const struct job_end *end)
{
    const char *name = cause_chain_name(end, 1);
    buf_printf(out, " (pid %d), a child of ", (int)cause_chain_pid(end, 0));
    cause_cut(out, name ? name : "?");
    buf_printf(out, " (pid %d),", (int)cause_chain_pid(end, 1));
}

/* kill(1), pkill or killall, which the job has run then with that signal, for this process, its group, or programs of its name. */
static const struct job_process *killer_of(const struct job_end *end, pid_t pid, const char *name, double ended,
                                           int signo)
{
    const struct job_model *model = end->model;
    char number[16], group[16];
    size_t index;
    json_t *word;
    snprintf(number, sizeof number, "%d", (int)pid);
    snprintf(group, sizeof group, "-%d", (int)pid);
    for (size_t i = model->ended_count; i-- > 0;) {
        const struct job_process *process = &model->ended[i];
        if (process->start > ended + SEEN_SECONDS || process->end < ended - CAUSE_AT_ONCE_SECONDS ||
            starter_kill_signal(process->argv) != signo)
            continue;
        json_array_foreach(process->argv, index, word)
        {
            const char *text = json_string_value(word);
            if (index && text && (strcmp(text, number) == 0 || strcmp(text, group) == 0 || strcmp(text, name) == 0))
                return process;
        }
    }
    return NULL;
}

/* Of the at-th of the chain: a kill in its script, by its text, of what it had started, or of itself. */
static bool put_kill(struct buf *out, struct cause *cause, const struct job_end *end, size_t at, int signo)
{
    const json_t *process = json_array_get(end->chain, at), *kill;
    const struct layer_place *place = cause_chain_place(end, at);
    const char *file = member_string(place ? place->kills : NULL, "file");
    size_t index;
    if (at && !json_is_integer(json_object_get(process, "exit_code")))
        return false; /* it was ended, too */
    json_array_foreach(json_object_get(place ? place->kills : NULL, "kills"), index, kill)
    {
        if (json_integer_value(json_object_get(kill, "signal")) != signo ||
            (!at && !json_is_true(json_object_get(kill, "self"))))
            continue;
        buf_puts(out, "its own script");
        if (file) {
            buf_puts(out, " (");
            cause_cut(out, text_base(file));
            buf_printf(out, ":%lld)", (long long)json_integer_value(json_object_get(kill, "line")));
        }
        cause_add(cause, place->kills);
        return true;
    }
    return false;
}

/* Who has sent it, as far as is known. */
static void put_killer(struct buf *out, struct cause *cause, const struct job_end *end, pid_t pid, const char *name,
                       double ended, int signo)
{
    const struct job_process *killer = killer_of(end, pid, name, ended, signo);
    if (killer) {
        cause_cut(out, killer->name);
        buf_printf(out, " (pid %d) of its own job", (int)killer->pid);
    }
    for (size_t at = 0; !out->len && at < json_array_size(end->chain); at++)
        put_kill(out, cause, end, at, signo);
    if (!out->len)
        buf_puts(out, "its own job, or from outside: by a batch system's limit, or by somebody");
}

bool cause_ended_by_job(const struct job_end *end)
{
    struct starter_timeout timeout;
    struct cause cause = {.evidence = json_array()};
    const char *name = cause_chain_name(end, 0);
    int signo = job_status_signal(cause_chain_status(json_array_get(end->chain, 0)));
    bool by_job = timed_out(end, &timeout) == 0 ||
                  (signo && killer_of(end, cause_chain_pid(end, 0), name ? name : "", cause_chain_end(end, 0), signo));
    for (size_t at = 1; signo && !by_job && at < json_array_size(end->chain); at++)
        by_job = put_kill(&cause.said, &cause, end, at, signo);
    cause_done(&cause);
    return by_job;
}

bool cause_find_killed(const struct job_end *end, struct cause *cause, bool sure)
{
    const struct job_rank *rank = end->rank;
    int signo = cause_signal(end), killed = rank ? job_status_signal(rank->status) : 0;
    if (sure || !(killed || (signo && was_ended(end))) || cause_outlived(end))
        return false;
    cause_add(cause, end->model->end);
    if (say_left(end, cause))
        return true;
    const char *name = cause_chain_name(end, 0);
    if (killed && (killed == SIGKILL || !signo)) {
        signo = killed;
        buf_printf(&cause->where, "rank %d of %d", rank->rank, rank->ranks);
        if (rank->node) {
            buf_puts(&cause->where, " on node ");
            cause_cut(&cause->where, rank->node);
        }
    } else {
        rank = NULL;
        cause_cut(&cause->where, name ? name : "the command");
        if (cause_was_told(end))
            put_worker(&cause->where, end);
    }
    const json_t *launcher = launcher_of(end, signo, rank ? 0 : 1);
    if (launcher) {
        _cleanup_(buf_done) struct buf said = BUF_INIT;
        cause_cut(&cause->what, member_string(launcher, "name"));
        if (rank && rank->call)
            buf_printf(&cause->where, ", in %s%s,", rank->call, rank->named ? "" : " while others waited for it");
        if (rank) /* it was ended for what it said itself */
            cause_put_said(&said, end, SAID_HINT, rank->seconds);
        buf_puts(&cause->said, said.len ? ": " : " and has said why");
        buf_append(&cause->said, said.data, said.len);
        cause->note = NOTE(
            cause_launcher, .program = cause_text(&cause->where),
            .signal = text_signal(signo, cause->signal, sizeof cause->signal), .launcher = cause_text(&cause->what),
            .status = json_integer_value(json_object_get(launcher, "exit_code")), .said = cause_text(&cause->said));
        return true;
    }
    pid_t pid = rank ? rank->pid : cause_chain_pid(end, 0);
    put_killer(&cause->said, cause, end, pid, name ? name : "", rank ? rank->seconds : cause_chain_end(end, 0), signo);
    put_waited(&cause->said, end);
    cause->note =
        NOTE(cause_killed, .program = cause_text(&cause->where),
             .signal = text_signal(signo, cause->signal, sizeof cause->signal), .by = cause_text(&cause->said));
    return true;
}
