/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/layers/starter.h"

#include "jobdir/layers/culprit.h"
#include "jobdir/text/text.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum starter starter_of(const char *name)
{
    static const struct {
        const char *name;
        enum starter starter;
        bool more; /* may follow, as in mpirun.openmpi */
    } rows[] = {
        {"bash", STARTER_SHELL, false},
        {"sh", STARTER_SHELL, false},
        {"dash", STARTER_SHELL, false},
        {"ksh", STARTER_SHELL, false},
        {"zsh", STARTER_SHELL, false},
        {"mpirun", STARTER_LAUNCHER, true},
        {"mpiexec", STARTER_LAUNCHER, true},
        {"orterun", STARTER_LAUNCHER, false},
        {"prterun", STARTER_LAUNCHER, false},
        {"srun", STARTER_LAUNCHER, false},
        {"orted", STARTER_DAEMON, false},
        {"prted", STARTER_DAEMON, false},
        {"hydra_pmi_proxy", STARTER_DAEMON, false},
        {"xargs", STARTER_RUNNER, false},
        {"make", STARTER_RUNNER, false},
        {"gmake", STARTER_RUNNER, false},
        {"ninja", STARTER_RUNNER, false},
        {"find", STARTER_RUNNER, false},
        {"time", STARTER_RUNNER, false},
    };
    for (size_t i = 0; name && i < sizeof rows / sizeof *rows; i++) {
        size_t len = strlen(rows[i].name);
        if (strncmp(name, rows[i].name, len) == 0 && (!name[len] || rows[i].more))
            return rows[i].starter;
    }
    return STARTER_NONE;
}

bool starter_is_shell(const char *name, const json_t *argv)
{
    const char *program = json_string_value(json_array_get(argv, 0));
    return starter_of(name) == STARTER_SHELL || (program && starter_of(text_base(program)) == STARTER_SHELL);
}

int starter_shell_status(int status)
{
    return WIFSIGNALED(status) ? SHELL_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

bool starter_lived_on(const char *name, const json_t *argv, int status, int signo)
{
    enum { STATUSES = 256 }; /* sys.exit(-signo) of Python ends with this less signo */
    int code = WEXITSTATUS(status);
    return starter_of(name) == STARTER_NONE && !starter_is_shell(name, argv) && WIFEXITED(status) &&
           code != SHELL_SIGNAL + signo && code != signo && code != STATUSES - signo;
}

/* ---- timeout(1) ---- */

static double seconds_in(const char *text)
{
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}};
    char *end;
    double seconds = strtod(text, &end);
    for (size_t i = 0; end != text && i < sizeof units / sizeof *units; i++)
        if (strcmp(end, units[i].unit) == 0)
            return seconds * units[i].seconds;
    return -1;
}

struct command_line {
    double seconds, more; /* < 0: none */
    int signo;
    bool keeps_status;
    const char *program;
};

/* The value of an option in any of its forms, of which there may be one in the next word; NULL: it is another one. */
static const char *value_of(const json_t *argv, size_t *at, char letter, const char *option)
{
    const char *word = json_string_value(json_array_get(argv, *at));
    size_t len = strlen(option);
    if (strncmp(word, option, len) == 0 && word[len] == '=')
        return word + len + 1;
    bool is_short = word[0] == '-' && word[1] == letter;
    if (is_short && word[2])
        return word + 2;
    if (!is_short && strcmp(word, option) != 0)
        return NULL;
    const char *value = json_string_value(json_array_get(argv, ++*at));
    return value ? value : "";
}

static struct command_line read_line(const json_t *argv)
{
    struct command_line line = {.seconds = -1, .more = -1, .signo = SIGTERM};
    size_t at = 1;
    for (const char *word, *value; (word = json_string_value(json_array_get(argv, at))) != NULL && *word == '-'; at++) {
        if ((value = value_of(argv, &at, 'k', "--kill-after")) != NULL)
            line.more = seconds_in(value);
        else if ((value = value_of(argv, &at, 's', "--signal")) != NULL)
            line.signo = text_signal_number(value);
        else if (strcmp(word, "--preserve-status") == 0 || strcmp(word, "-p") == 0)
            line.keeps_status = true;
        else if (strcmp(word, "--") == 0) {
            at++;
            break;
        }
    }
    const char *limit = json_string_value(json_array_get(argv, at));
    const char *program = json_string_value(json_array_get(argv, at + 1));
    line.seconds = limit ? seconds_in(limit) : -1;
    line.program = program ? text_base(program) : NULL;
    return line;
}

/* SIGKILL ends timeout(1) itself, too, which then has the status that a shell gives to that. */
bool starter_timed_out(const char *name, const json_t *argv, double lived_seconds, int status,
                       struct starter_timeout *ret_timeout)
{
    if (!name || strcmp(name, "timeout") != 0 || status < 0)
        return false;
    struct command_line line = read_line(argv);
    int code = starter_shell_status(status);
    bool over = line.seconds > 0 && lived_seconds >= line.seconds - SEEN_SECONDS;
    bool killed_later = line.more > 0 && lived_seconds >= line.seconds + line.more - SEEN_SECONDS;
    bool killed = code == SHELL_SIGNAL + SIGKILL && (line.signo == SIGKILL || killed_later);
    *ret_timeout = (struct starter_timeout){.seconds = line.seconds,
                                            .more = killed && line.signo != SIGKILL ? line.more : -1,
                                            .program = line.program,
                                            .signo = killed ? SIGKILL : line.signo};
    if (line.seconds < 0) /* its command line is not known, or not understood */
        return WIFEXITED(status) && code == TIMEOUT_STATUS;
    return over && (killed || code == TIMEOUT_STATUS || (line.keeps_status && code));
}

/* ---- kill(1) ---- */

int starter_kill_signal(const json_t *argv)
{
    static const struct {
        const char *name;
        char option, other; /* behind which the signal stands; 0: none */
    } programs[] = {{"kill", 's', 'n'}, {"killall", 's', 0}, {"pkill", 0, 0}};
    const char *name = json_string_value(json_array_get(argv, 0)), *word, *value;
    size_t row = 0, at = 1, count = sizeof programs / sizeof *programs;
    int signo = SIGTERM;
    while (row < count && !(name && strcmp(text_base(name), programs[row].name) == 0))
        row++;
    if (row == count)
        return 0;
    for (; (word = json_string_value(json_array_get(argv, at))) != NULL && *word == '-' && word[1]; at++) {
        if (strcmp(word, "--") == 0) {
            at++;
            break;
        }
        bool named = (value = value_of(argv, &at, programs[row].option, "--signal")) != NULL ||
                     (programs[row].other && (value = value_of(argv, &at, programs[row].other, "--signal")) != NULL);
        int sent = text_signal_number(named ? value : word + 1);
        if (named || row == 0 || sent)
            signo = sent;
        if (row == 0) { /* what follows may be a group, as -123 */
            at++;
            break;
        }
    }
    return json_array_get(argv, at) && signo > 0 && signo < NSIG ? signo : 0;
}

enum { SHOWN = 3, TEXT_COLUMNS = 160, LOGS_MOST = 16 };
static const double SOON_SECONDS = 30; /* it takes some of them until it is known that a program stands still */

/* By a signal that is not what a parent ends its workers with, or with a status. */
static bool is_lost(const struct job_process *process)
{
    if (!culprit_has_failed(process))
        return false;
    int signo = job_status_signal(process->status);
    return signo != SIGTERM && signo != SIGINT && signo != SIGHUP;
}

/* It executes the same, as after fork, and is no shell, whose subshells fail for a purpose. */
static bool is_worker(const struct job_process *process, const struct job_process *parent)
{
    return parent->pid == process->ppid && parent->start <= process->start &&
           strcmp(parent->name, process->name) == 0 && !starter_is_shell(parent->name, parent->argv) &&
           starter_of(parent->name) == STARTER_NONE;
}

static const struct job_process *parent_of(const struct job_model *model, const struct job_process *process,
                                           double seconds, bool lives)
{
    const struct job_process *parent;
    HASH_FIND(hh, model->alive, &process->ppid, sizeof process->ppid, parent);
    if (parent && is_worker(process, parent))
        return parent;
    for (size_t i = model->ended_count; i-- > 0 && !lives && model->ended[i].end >= seconds;)
        if (is_worker(process, &model->ended[i]))
            return &model->ended[i];
    return NULL;
}

static void put_end(struct buf *out, const struct job_process *process)
{
    char room[32];
    buf_printf(out, "pid %d, ", process->pid);
    if (WIFSIGNALED(process->status))
        buf_puts(out, text_signal(WTERMSIG(process->status), room, sizeof room));
    else
        buf_printf(out, "exit status %d", WEXITSTATUS(process->status));
    buf_printf(out, " at %.1f s", process->end);
}

bool workers_put_lost(struct buf *out, const struct job_model *model, double seconds, bool lives)
{
    const struct job_process *parent = NULL, *lost[SHOWN];
    size_t count = 0;
    for (size_t i = model->ended_count; i-- > 0;) {
        const struct job_process *process = &model->ended[i];
        if (process->end > seconds || !is_lost(process) ||
            (parent ? !is_worker(process, parent) : !(parent = parent_of(model, process, seconds, lives))))
            continue;
        if (count < SHOWN)
            lost[count] = process;
        count++;
    }
    if (!count)
        return false;
    text_show(out, parent->name);
    buf_printf(out, " (pid %d) %s lost ", parent->pid, lives ? "has" : "had");
    if (count == 1)
        buf_puts(out, "a worker: ");
    else
        buf_printf(out, "%zu workers: ", count);
    for (size_t i = count < SHOWN ? count : SHOWN; i-- > 0;) {
        put_end(out, lost[i]);
        buf_puts(out, !i ? "" : i == 1 && count <= SHOWN ? ", and " : ", ");
    }
    if (count > SHOWN)
        buf_printf(out, ", and %zu before", count - SHOWN);
    return true;
}

bool workers_put_exception(struct buf *out, const struct job_model *model, double seconds)
{
    const json_t *logs = model->layers.logs.records;
    size_t count = json_array_size(logs);
    const json_t *last = count ? json_array_get(logs, count - 1) : NULL;
    double at = json_number_value(json_object_get(last, "t"));
    const char *text = member_text(last, "text"), *place = "";
    if (strcmp(member_text(last, "pattern"), "exception") != 0 || strcmp(member_text(last, "level"), "error") != 0 ||
        !*text || (seconds >= 0 && (at > seconds || at < seconds - SOON_SECONDS)))
        return false;
    for (size_t i = count; i-- > 0 && count - i <= LOGS_MOST && !*place;) {
        const json_t *same = json_array_get(logs, i);
        place = strcmp(member_text(same, "text"), text) == 0 ? member_text(same, "place")
                                                             : ""; /* others of them said it, too */
    }
    buf_append(out, text, text_fit(text, strcspn(text, "\n"), TEXT_COLUMNS));
    if (*place)
        buf_printf(out, ", at %s", text_base(place));
    return true;
}
