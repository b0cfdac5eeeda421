/* SPDX-License-Identifier: Apache-2.0 */
#include "job/logs/logs.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/proc_file.h"
#include "job/logs/files.h"
#include "job/logs/patterns.h"
#include "job/logs/tail.h"
#include "job/scripts/scripts.h"
#include "jobdir/layers/cause.h"
#include "jobdir/layers/starter.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"

#define MS_NS UINT64_C(1000000)

enum {
    SCAN_TIMES = 50, /* a look for files that takes long is seldom: once in so many times that */
};
enum { LAST_LINES = 3, LAST_COLUMNS = 200 };
enum { BEHIND_MOST = 64 << 20, BEHIND_KEPT = 16 << 20 }; /* bytes of one file */

/* Directories below the working directory in which programs mostly have their logs; "": that itself. */
static const char *const log_places[] = {"", "/log", "/logs"};

/* What failed lately, and where what it wrote may be. */
static const double AT_ONCE = 0.05; /* seconds: times of what was only seen are so coarse */
enum { FAILED_KEPT = 16, OUTPUTS_MOST = 32, FOLDERS_MOST = 4, ARGUMENTS_MOST = 64 };

struct log_failed {
    pid_t pid, ppid;
    double start, end;
    int status;
    char *names[3], *cwd; /* names that a script may call it by; NULL: not known, or no more */
};

struct log_output {
    char *path;
    pid_t pid, ppid; /* of what failed; 0: of what failed beside it, whose parent is ppid, and began then */
    double start;
    bool words;
};

struct logs {
    struct observer *observer;
    struct log_sink sink;
    struct log_files files;
    uint64_t rows; /* of the built-in patterns */
    struct log_rule *rules;
    size_t rule_count, metric_count; /* rules; the first of them are of --metric */
    struct loop_source *timer;
    uint64_t idle_ns, rest_ns, scan_ns; /* the wait; when these are due */
    int64_t spare_ns;                   /* of processor time; below 0: taken in advance */
    uint64_t spare_at_ns;
    uint64_t error_ns; /* when the last error was recorded; 0: none was */
    size_t looked;     /* at so many processes for the logs that they have opened */
    bool failed;       /* the command has, */
    double end;        /* then */
    char *elsewhere;   /* the working directory of what failed last before it; NULL: none, or the job's */
    struct log_failed failures[FAILED_KEPT]; /* a ring */
    size_t failure_count;
    char *folders[FOLDERS_MOST]; /* that the command lines of those name; NULL: no more */
    struct log_output outputs[OUTPUTS_MOST];
    size_t output_count;
};

static void put(void *ctx, enum record_type type, const void *row)
{
    struct logs *logs = ctx;
    if (type == RECORD_log &&
        strcmp(((const struct log_record *)row)->level, log_severity_names[LOG_SEVERITY_ERROR]) == 0)
        logs->error_ns = clock_now_ns();
    observe_put(logs->observer, type, row);
}

static double seconds(void *ctx, uint64_t now_ns)
{
    const struct logs *logs = ctx;
    return observe_seconds(logs->observer, now_ns);
}

static void note(void *ctx, struct note said)
{
    struct logs *logs = ctx;
    observe_note(logs->observer, said);
}

/* ---- the options ---- */

/* Compiles a --log, or a --metric. */
static int take_rule(struct logs *logs, const char *text, bool metric, struct err *err)
{
    const char *option = metric ? "--metric" : "--log";
    struct log_expressions *expressions = &logs->files.expressions;
    struct err why = {0};
    if (logs->rule_count == RUN_LOGS)
        return err_set(err, -E2BIG, "%s: at most %d", option, RUN_LOGS);
    struct log_rule *rule = &logs->rules[logs->rule_count];
    struct log_expression *expression = &expressions->given[logs->rule_count];
    int code = metric ? log_metric_rule(rule, text, &why) : log_rule_parse(rule, text, &why);
    if (code == 0 && rule->expression && (code = log_regex_new(&expression->regex, rule->expression, &why)) < 0)
        log_rule_done(rule);
    if (code == 0 && metric && !log_regex_has_group(expression->regex)) {
        log_regex_free(expression->regex);
        expression->regex = NULL;
        log_rule_done(rule);
        code = err_set(&why, -EINVAL, "put the number in parentheses: 'loss is (\\S+)'");
    }
    if (code < 0)
        return err_set(err, code, "%s %.150s%s: %s", option, text, strlen(text) > 150 ? "..." : "", why.text);
    expression->metric = metric ? rule->file : NULL;
    expression->name = rule->expression;
    expression->severity = rule->severity;
    expressions->given_count = ++logs->rule_count;
    logs->metric_count += metric;
    return 0;
}

static int take_rules(struct logs *logs, const struct run_options *options, struct err *err)
{
    int code = 0;
    logs->rules = calloc(RUN_LOGS, sizeof *logs->rules);
    logs->files.expressions.given = calloc(RUN_LOGS, sizeof *logs->files.expressions.given);
    if (!logs->rules || !logs->files.expressions.given)
        return err_set(err, -ENOMEM, "out of memory");
    for (size_t i = 0; code == 0 && i < options->metric_count; i++)
        code = take_rule(logs, options->metrics[i], true, err);
    for (size_t i = 0; code == 0 && i < options->log_count; i++)
        code = take_rule(logs, options->logs[i], false, err);
    return code;
}

static void drop_rules(struct logs *logs, size_t from)
{
    struct log_expressions *expressions = &logs->files.expressions;
    for (size_t i = from; i < logs->rule_count; i++) {
        log_rule_done(&logs->rules[i]);
        log_regex_free(expressions->given[i].regex);
        expressions->given[i] = (struct log_expression){0};
    }
    logs->rule_count = expressions->given_count = from;
}

static int take_rows(const struct run_options *options, uint64_t *ret_rows, struct err *err)
{
    struct err why = {0};
    int code = log_patterns_select(options->log_patterns ? options->log_patterns : "all", ret_rows, &why);
    return code < 0 ? err_set(err, code, "--log-patterns: %s", why.text) : 0;
}

static void failed_done(struct log_failed *failed)
{
    for (size_t i = 0; i < sizeof failed->names / sizeof *failed->names; i++)
        free(failed->names[i]);
    free(failed->cwd);
    *failed = (struct log_failed){0};
}

static void free_logs(struct logs *logs)
{
    drop_rules(logs, 0);
    log_files_done(&logs->files);
    for (size_t i = 0; i < FAILED_KEPT; i++)
        failed_done(&logs->failures[i]);
    for (size_t i = 0; i < logs->output_count; i++)
        free(logs->outputs[i].path);
    for (size_t i = 0; i < FOLDERS_MOST; i++)
        free(logs->folders[i]);
    free(logs->elsewhere);
    free(logs->rules);
    free(logs);
}

int logs_check(const struct run_options *options, struct err *err)
{
    uint64_t rows;
    struct logs *logs = calloc(1, sizeof *logs);
    if (!logs)
        return err_set(err, -ENOMEM, "out of memory");
    int code = take_rules(logs, options, err);
    code = code < 0 ? code : take_rows(options, &rows, err);
    free_logs(logs);
    return code;
}

/* ---- turns ---- */

static uint64_t cpu_ns(void)
{
    return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static void save_up(struct logs *logs, uint64_t now_ns)
{
    logs->spare_ns += (int64_t)((now_ns - logs->spare_at_ns) * LOGS_SHARE_PERCENT / 100);
    if (logs->spare_ns > (int64_t)(LOGS_SPARE_CPU_MS * MS_NS))
        logs->spare_ns = (int64_t)(LOGS_SPARE_CPU_MS * MS_NS);
    logs->spare_at_ns = now_ns;
}

static void scan(struct logs *logs, uint64_t now_ns)
{
    if (now_ns < logs->scan_ns)
        return;
    log_files_scan(&logs->files, false);
    uint64_t end_ns = clock_now_ns(), wait_ns = (end_ns - now_ns) * SCAN_TIMES;
    logs->scan_ns = end_ns + (wait_ns > LOGS_REST_MS * MS_NS ? wait_ns : LOGS_REST_MS * MS_NS);
}

static void say_skipped(struct logs *logs, const struct log_file *file)
{
    if (file->skipped_bytes)
        note(logs, NOTE(log_skipped, .file = file->name, .bytes = file->skipped_bytes));
}

static void look(struct logs *logs)
{
    struct log_file *file, *next;
    log_files_add_streams(&logs->files, logs->observer->root, logs->rows);
    HASH_ITER(hh, logs->files.files, file, next)
    {
        tail_look(&file->tail, false);
        if (file->wild && !tail_is_open(&file->tail) && file->tail.refused == ENOENT) {
            log_match_rest(&file->matcher, clock_now_ns(), true);
            say_skipped(logs, file);
            log_files_forget(file);
        }
    }
}

/* Of what may be data the last lines: how far they say that the job is. */
static void look_at_end(struct log_file *file, uint64_t now_ns)
{
    enum { END_BYTES = 512 };
    struct tail *tail = &file->tail;
    char bytes[END_BYTES];
    uint64_t size = tail->offset + tail_backlog(tail), from = size > END_BYTES ? size - END_BYTES : 0;
    if (tail->fd < 0 || size == file->looked_at)
        return;
    file->looked_at = size;
    from = from > tail->start ? from : tail->start;
    ssize_t got = size > from ? pread(tail->fd, bytes, (size_t)(size - from), (off_t)from) : 0;
    size_t first = 0, len = got > 0 ? (size_t)got : 0;
    while (len && bytes[len - 1] != '\n' && bytes[len - 1] != '\r')
        len--; /* a line that is not whole */
    while (from > tail->start && first < len && bytes[first] != '\n' && bytes[first] != '\r')
        first++;
    if (first < len)
        log_match_progress(&file->matcher, now_ns, bytes + first, len - first);
}

static void say_rest(struct logs *logs, uint64_t now_ns, bool end)
{
    if (now_ns < logs->rest_ns && !end)
        return;
    logs->rest_ns = now_ns + LOGS_REST_MS * MS_NS;
    for (struct log_file *file = logs->files.files; file; file = file->hh.next) {
        if (file->data && !file->log && logs->rows)
            look_at_end(file, now_ns);
        log_match_rest(&file->matcher, now_ns, end);
    }
}

/* Reads one piece of each file after the other. Returns whether something is left. */
static bool read_files(struct logs *logs, uint64_t cpu_most_ns, uint64_t until_ns, bool *ret_any)
{
    uint64_t start_ns = cpu_ns();
    bool more = true;
    while (more) {
        more = false;
        for (struct log_file *file = logs->files.files; file; file = file->hh.next) {
            if (file->data)
                file->tail.offset += tail_backlog(&file->tail);
            if (!tail_read(&file->tail))
                continue;
            *ret_any = more = true;
            if (cpu_ns() - start_ns > cpu_most_ns || clock_now_ns() > until_ns)
                return true;
        }
    }
    return false;
}

static void skip(struct logs *logs, uint64_t above, uint64_t keep, const char *reason)
{
    for (struct log_file *file = logs->files.files; file; file = file->hh.next)
        if (!file->data && tail_backlog(&file->tail) > above)
            tail_skip(&file->tail, keep, reason);
}

static void on_turn(void *ctx)
{
    struct logs *logs = ctx;
    uint64_t start_ns = clock_now_ns(), cpu_start_ns = cpu_ns();
    bool any = false, left = true;
    save_up(logs, start_ns);
    scan(logs, start_ns);
    look(logs);
    if (logs->spare_ns > 0) {
        uint64_t spare_ns = (uint64_t)logs->spare_ns, most_ns = LOGS_TURN_CPU_MS * MS_NS;
        left = read_files(logs, spare_ns < most_ns ? spare_ns : most_ns, UINT64_MAX, &any);
    }
    say_rest(logs, start_ns, false);
    for (struct log_file *file = logs->files.files; file; file = file->hh.next)
        tail_rest(&file->tail);
    logs->spare_ns -= (int64_t)(cpu_ns() - cpu_start_ns);
    uint64_t wait_ns = MS_NS;
    int64_t least_ns = (int64_t)(LOGS_LEAST_CPU_MS * MS_NS);
    if (left && logs->spare_ns < least_ns) {
        skip(logs, BEHIND_MOST, BEHIND_KEPT, "it came faster than it could be looked at");
        wait_ns = (uint64_t)(least_ns - logs->spare_ns) * 100 / LOGS_SHARE_PERCENT;
    } else if (!left) {
        logs->idle_ns = any ? LOGS_SOON_MS * MS_NS : 2 * logs->idle_ns;
        logs->idle_ns = logs->idle_ns < LOGS_SELDOM_MS * MS_NS ? logs->idle_ns : LOGS_SELDOM_MS * MS_NS;
        wait_ns = logs->files.files || logs->files.name_count ? logs->idle_ns : LOGS_NEVER_NS;
    }
    loop_set_timer(logs->timer, wait_ns, 0);
}

/* ---- its life ---- */

/* All that is wanted. Files that are there are followed from their end on. */
static bool add_names(struct logs *logs, uint64_t rows)
{
    uint64_t built_in = rows ? rows : LOG_PATTERNS_ALL, metrics = (UINT64_C(1) << logs->metric_count) - 1;
    bool good = true;
    logs->rows = rows;
    for (size_t i = logs->metric_count; i < logs->rule_count; i++) {
        const struct log_rule *rule = &logs->rules[i];
        good &= log_files_add(&logs->files, rule->file, metrics | (rule->expression ? UINT64_C(1) << i : 0),
                              rule->expression ? 0 : built_in, true);
    }
    good = good && (!(rows | metrics) || (log_files_add(&logs->files, "stderr", metrics, rows, false) &&
                                          log_files_add(&logs->files, "stdout", metrics, rows, false)));
    log_files_scan(&logs->files, true);
    for (struct log_file *file = logs->files.files; file; file = file->hh.next)
        if (!tail_is_open(&file->tail) && !file->seen)
            tail_look(&file->tail, true);
    return good;
}

static void *logs_start(struct observer *observer, struct err *err)
{
    uint64_t rows = 0, now_ns = clock_now_ns();
    struct logs *logs = calloc(1, sizeof *logs);
    if (!logs) {
        err_set(err, -ENOMEM, "out of memory");
        return NULL;
    }
    *logs = (struct logs){.observer = observer,
                          .sink = {logs, put, note, seconds},
                          .idle_ns = LOGS_SOON_MS * MS_NS,
                          .spare_ns = (int64_t)(LOGS_SPARE_CPU_MS * MS_NS),
                          .spare_at_ns = now_ns};
    logs->files.expressions.sink = &logs->sink;
    logs->files.cwd = observer->cwd;
    logs->files.dir = observer->dir;
    memcpy(logs->files.kept, observer->kept, sizeof observer->kept);
    logs->files.root = observer->root;
    logs->files.now_ns = clock_now_ns;
    logs->files.start_ns = observer->restarted ? UINT64_MAX : clock_ns(CLOCK_REALTIME_COARSE);
    logs->files.silent = observer->restarted;
    if (take_rules(logs, observer->options, err) < 0 || take_rows(observer->options, &rows, err) < 0) {
        free_logs(logs);
        return NULL;
    }
    char path[PATH_MAX];
    log_files_note_mounts(&logs->files);
    for (size_t i = 0; rows && i < sizeof log_places / sizeof *log_places; i++)
        if ((size_t)snprintf(path, sizeof path, "%s%s", observer->cwd, log_places[i]) < sizeof path)
            log_files_note_logs(&logs->files, path);
    if (add_names(logs, rows)) {
        logs->files.silent = false;
        logs->timer = loop_add_timer(observer->loop, logs->idle_ns, 0, on_turn, logs);
    }
    if (!logs->timer) {
        err_set(err, -ENOMEM, "out of memory");
        free_logs(logs);
        return NULL;
    }
    return logs;
}

/* log=off drops all of them, another one is added; log-patterns are replaced. */
static void logs_changed(void *state, const char *key, const char *value)
{
    struct logs *logs = state;
    uint64_t rows = 0, now_ns = clock_now_ns();
    struct err err = {0};
    struct log_file *file, *next;
    bool log = strcmp(key, "log") == 0, off = log && strcmp(value, "off") == 0;
    if (!log && strcmp(key, "log-patterns") != 0)
        return;
    if (off) {
        for (file = logs->files.files; file; file = file->hh.next) {
            log_match_rest(&file->matcher, now_ns, true);
            log_match_forget_given(&file->matcher);
        }
        drop_rules(logs, logs->metric_count);
    }
    int code = take_rows(logs->observer->options, &rows, &err);
    if (code == 0 && log && !off)
        code = take_rule(logs, value, false, &err);
    if (code < 0) { /* not from scry set, which has checked it */
        note(logs, NOTE(setting_refused, .reason = err.text));
        return;
    }
    log_files_want_none(&logs->files);
    add_names(logs, rows);
    HASH_ITER(hh, logs->files.files, file, next)
    {
        file->matcher.rows |= file->found && !file->data ? rows : 0;
        if (file->matcher.given || file->matcher.rows || (file->data && rows))
            continue;
        log_match_rest(&file->matcher, now_ns, true);
        say_skipped(logs, file);
        log_files_forget(file);
    }
    logs->idle_ns = LOGS_SOON_MS * MS_NS;
    loop_set_timer(logs->timer, MS_NS, 0);
}

/* What had started it and may write by itself: not what only executes another program. */
static pid_t starter_above(const struct logs *logs, const struct observed_process *process)
{
    static const char *const silent[] = {"timeout", "env",     "nice",    "ionice", "nohup", "setsid",
                                         "stdbuf",  "taskset", "numactl", "chrt",   NULL};
    enum { STARTERS_MOST = 8 }; /* numbers may come again */
    pid_t pid = process->ppid;
    const struct observed_process *above;
    for (int i = 0; i < STARTERS_MOST; i++, pid = above->ppid) {
        HASH_FIND_INT(logs->observer->processes, &pid, above);
        if (!above || !text_is_one(above->name, silent))
            break;
    }
    return pid;
}

static void logs_process(void *state, const struct observed_process *process)
{
    struct logs *logs = state;
    size_t before = logs->files.found_count;
    log_files_leave_outputs(&logs->files, process->ppid);
    log_files_add_streams(&logs->files, process->pid, logs->rows);
    log_files_note_holder(&logs->files, process->pid, starter_above(logs, process));
    if (logs->files.found_count == before)
        return;
    logs->idle_ns = LOGS_SOON_MS * MS_NS;
    loop_set_timer(logs->timer, MS_NS, 0);
}

/* Which logs processes have opened: a few of them each time. */
static void logs_tick(void *state)
{
    enum { LOOKS_MOST = 16 };
    struct logs *logs = state;
    size_t at = 0, count = HASH_COUNT(logs->observer->processes), before = logs->files.log_count;
    for (const struct observed_process *each = logs->observer->processes; each; each = each->hh.next, at++)
        if ((at + count - logs->looked % count) % count < LOOKS_MOST)
            log_files_add_logs(&logs->files, each->pid, logs->rows);
    logs->looked += LOOKS_MOST;
    if (logs->files.log_count == before)
        return;
    logs->idle_ns = LOGS_SOON_MS * MS_NS;
    loop_set_timer(logs->timer, MS_NS, 0);
}

/* Where it may have written a log. */
static void take_failure(struct logs *logs, const struct observed_process *process)
{
    const char *cwd = process->command ? process->command->cwd : NULL;
    if (process->pid == logs->observer->root) {
        logs->failed = true;
        logs->end = process->end;
    }
    if (!cwd || *cwd != '/' || strcmp(cwd, logs->files.cwd) == 0)
        return;
    free(logs->elsewhere);
    logs->elsewhere = strdup(cwd);
}

/* ---- where what failed may have written ---- */

static void add_output(struct logs *logs, const char *cwd, const char *file, struct log_output output)
{
    char path[PATH_MAX];
    while (strncmp(file, "./", strlen("./")) == 0)
        file += strlen("./");
    int len = *file == '/' ? snprintf(path, sizeof path, "%s", file) : snprintf(path, sizeof path, "%s/%s", cwd, file);
    if (logs->output_count == OUTPUTS_MOST || len <= 0 || (size_t)len >= sizeof path || !(output.path = strdup(path)))
        return;
    logs->outputs[logs->output_count++] = output;
}

static bool is_output_option(const char *option)
{
    static const char *const begins[] = {"-o", "--out", "--log", "-log", NULL};
    return text_begins_with_one(option, begins);
}

/* "-o run/out.log", "--outdir=/scratch/run": logs, and where they may be. */
static void take_arguments(struct logs *logs, const struct observed_process *process, const char *cwd)
{
    const struct command_fields *command = process->command;
    struct stat status;
    char path[PATH_MAX];
    size_t index;
    json_t *each;
    json_array_foreach(command ? command->argv : NULL, index, each)
    {
        const char *word = json_string_value(each), *value = word && *word == '-' ? strchr(word, '=') : NULL;
        const char *option = value ? word : json_string_value(json_array_get(command->argv, index ? index - 1 : 0));
        word = value ? value + 1 : word;
        if (!index || !word || !*word || *word == '-' || index > ARGUMENTS_MOST)
            continue;
        if (log_files_is_log(word) || (index > 1 && is_output_option(option)))
            add_output(logs, cwd, word, (struct log_output){.pid = process->pid});
        int len =
            *word == '/' ? snprintf(path, sizeof path, "%s", word) : snprintf(path, sizeof path, "%s/%s", cwd, word);
        size_t at = 0;
        while (at < FOLDERS_MOST && logs->folders[at])
            at++;
        if (at < FOLDERS_MOST && len > 0 && (size_t)len < sizeof path && lstat(path, &status) == 0 &&
            S_ISDIR(status.st_mode) && status.st_uid == geteuid())
            logs->folders[at] = strdup(path);
    }
}

static void keep_failure(struct logs *logs, const struct observed_process *process)
{
    enum { WORDS = 2 }; /* "python3 fit.py": a script may call it by the second, too */
    struct log_failed *failed = &logs->failures[logs->failure_count++ % FAILED_KEPT];
    const struct command_fields *command = process->command;
    size_t names = 0;
    failed_done(failed);
    *failed = (struct log_failed){.pid = process->pid,
                                  .ppid = process->ppid,
                                  .start = process->start,
                                  .end = process->end,
                                  .status = process->status};
    for (size_t i = 0; i < WORDS; i++) {
        const char *word = command ? json_string_value(json_array_get(command->argv, i)) : process->name;
        if (word && *word && *word != '-' && (failed->names[names] = strdup(text_base(word))) != NULL)
            names++;
        if (!command)
            break;
    }
    failed->cwd = strdup(command && command->cwd ? command->cwd : logs->files.cwd);
    if (failed->cwd)
        take_arguments(logs, process, failed->cwd);
}

/* Where the script of a shell has what failed in it written, by its text: mostly that is too short to be seen. */
static void take_shell(struct logs *logs, const struct observed_process *shell)
{
    const struct command_fields *command = shell->command;
    const size_t first = logs->failure_count > FAILED_KEPT ? logs->failure_count - FAILED_KEPT : 0;
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    size_t index;
    json_t *each;
    if (!command || !starter_is_shell(shell->name, command->argv))
        return;
    for (size_t i = first; i < logs->failure_count; i++) {
        const struct log_failed *failed = &logs->failures[i % FAILED_KEPT];
        if (failed->ppid != shell->pid || !failed->cwd || !failed->names[0])
            continue;
        if (!text.len && !script_text_of(&text, command))
            return;
        json_t *outputs = script_outputs_find(text.data, text.len, (const char *const *)failed->names);
        json_array_foreach(outputs, index, each)
            add_output(logs, failed->cwd, json_string_value(json_object_get(each, "file")),
                       (struct log_output){.pid = failed->pid, .words = json_is_true(json_object_get(each, "words"))});
        json_decref(outputs);
    }
}

/* The files of tee(1), whatever a script calls them. */
static void take_tee(struct logs *logs, const struct observed_process *tee)
{
    const struct command_fields *command = tee->command;
    size_t index;
    json_t *each;
    json_array_foreach(command ? command->argv : NULL, index, each)
    {
        const char *word = json_string_value(each);
        if (index && word && *word != '-')
            add_output(logs, command->cwd ? command->cwd : logs->files.cwd, word,
                       (struct log_output){.ppid = tee->ppid, .start = tee->start, .words = true});
    }
}

/* What was seen with a file, and passed on to it what others said. */
static void take_passing(struct logs *logs, const struct observed_process *process)
{
    bool passes = false;
    for (size_t i = 0; script_passing[i] && process->status == 0; i++)
        passes |= strcmp(process->name, script_passing[i]) == 0;
    for (struct log_file *file = logs->files.files; file && passes; file = file->hh.next)
        if (file->found == process->pid && file->data && !file->log)
            add_output(logs, "", file->path,
                       (struct log_output){.ppid = process->ppid, .start = process->start, .words = true});
}

/* Of what failed, or of what failed in the same pipeline. */
static const struct log_failed *failed_of(const struct logs *logs, const struct log_output *output)
{
    const struct log_failed *found = NULL;
    for (size_t i = 0; i < FAILED_KEPT && i < logs->failure_count; i++) {
        const struct log_failed *failed = &logs->failures[i];
        bool beside = failed->ppid == output->ppid && failed->start <= output->start + AT_ONCE &&
                      failed->end >= output->start - AT_ONCE;
        if ((output->pid ? failed->pid == output->pid : beside) && (!found || failed->start > found->start))
            found = failed;
    }
    return found;
}

static void logs_process_ended(void *state, const struct observed_process *process)
{
    struct logs *logs = state;
    if (process->status > 0) {
        take_failure(logs, process);
        keep_failure(logs, process);
    }
    take_shell(logs, process);
    if (strcmp(process->name, "tee") == 0)
        take_tee(logs, process);
    take_passing(logs, process);
    for (struct log_file *file = logs->files.files; file && strcmp(process->name, "tee") == 0; file = file->hh.next)
        if (file->log && file->found == process->pid)
            file->found = logs->observer->root; /* it has what others of the job say */
    for (struct log_file *file = logs->files.files; file && process->status > 0; file = file->hh.next) {
        /* dash opens it for its command; what failed just before the shell has said why */
        bool own = file->found == process->pid || log_file_was_of(file, process->pid);
        bool of_shell = file->found == process->ppid;
        if (!file->found || (!own && !of_shell) ||
            (own && file->failed && file->end > process->end - CAUSE_FAILURE_SECONDS))
            continue;
        file->failed = process->pid;
        file->end = process->end;
        pid_t above = starter_above(logs, process);
        file->shared = (of_shell && above == process->ppid) || file->holder == above;
    }
}

/* Since the last line was written; -1: not known, for scry itself or a launcher wrote behind it. */
static double quiet_seconds(const struct tail *tail)
{
    uint64_t now_ns = clock_wall_ns();
    size_t len = tail->last_len, start;
    while (len && isspace((unsigned char)tail->last[len - 1]))
        len--;
    for (start = len; start && tail->last[start - 1] != '\n';)
        start--;
    if (log_is_own(tail->last + start, len - start) || log_is_of_launcher(tail->last + start, len - start))
        return -1;
    return now_ns > tail->last_ns ? (double)(now_ns - tail->last_ns) / NS_PER_SECOND : 0;
}

/* Whether the job's own standard output or error ends with the same, as behind tee(1). */
static bool is_repeated(const struct logs *logs, const struct log_file *file)
{
    for (const struct log_file *other = logs->files.files; other; other = other->hh.next) {
        const struct tail *one = &file->tail, *its = &other->tail;
        if (!other->found && its->stream && other->matcher.rows && one->last_len && its->last_len >= one->last_len &&
            memcmp(its->last + its->last_len - one->last_len, one->last, one->last_len) == 0)
            return true;
    }
    return false;
}

/* What a program that fails writes to its standard output, or into a log, is no data, at least not the end of it. It counts as written
 * now. */
static void match_failed(struct logs *logs, bool log)
{
    double now = observe_seconds(logs->observer, clock_now_ns());
    for (struct log_file *file = logs->files.files; file; file = file->hh.next) {
        const char *bytes = file->tail.last, *first = bytes;
        if (!file->data || file->log != log || !file->failed || !bytes || file->end < now - CAUSE_FAILURE_SECONDS ||
            (log && quiet_seconds(&file->tail) > now - file->end + CAUSE_FAILURE_SECONDS) || is_repeated(logs, file))
            continue;
        if (file->tail.last_len == TAIL_LAST_BYTES) /* it is cut */
            first = memchr(bytes, '\n', file->tail.last_len);
        file->matcher.rows = logs->rows;
        uint64_t now_ns = clock_now_ns(), wall_ns = clock_wall_ns(), last_ns = file->tail.last_ns;
        if (first)
            log_match_lines(&file->matcher, now_ns - (wall_ns > last_ns ? wall_ns - last_ns : 0), first,
                            file->tail.last_len - (size_t)(first - bytes), false);
    }
}

/* What failed has it as its own, as if it had it open itself, unless that was seen. */
static void find_outputs(struct logs *logs)
{
    for (size_t i = 0; i < logs->output_count && logs->rows; i++) {
        const struct log_output *output = &logs->outputs[i];
        const struct log_failed *failed = failed_of(logs, output);
        struct log_file *file = failed ? log_files_find_output(&logs->files, output->path) : NULL;
        bool words = output->words && file && file->log; /* it was taken for a log of whoever wrote it */
        if (!file || !file->found || (file->failed && !words && file->end > failed->end - CAUSE_FAILURE_SECONDS))
            continue; /* it is one of the job's own, or was asked for */
        file->shared &= file->failed == failed->pid;
        file->found = file->failed = failed->pid;
        file->end = failed->end;
        file->log = !output->words;
    }
}

/* Recorded lately, or begun: its message may follow. */
static bool has_error(const struct logs *logs)
{
    for (const struct log_file *file = logs->files.files; file; file = file->hh.next)
        if (!file->log && file->matcher.head.lines)
            return true;
    return logs->error_ns && clock_now_ns() - logs->error_ns <= LOGS_NEAR_SECONDS * (uint64_t)NS_PER_SECOND;
}

/* What the command names; and "outputs/2026-11-30/12-44-31/main.log", below the job's directory: others of a sweep may have theirs
 * there. */
static void find_new(struct logs *logs, pid_t root, uint64_t end_ns)
{
    struct log_files *files = &logs->files;
    const uint64_t until_ns = clock_now_ns() + LOGS_TEE_MS * MS_NS; /* where files are slow, the rest is left out */
    for (size_t i = 0; i < FOLDERS_MOST && logs->folders[i] && clock_now_ns() < until_ns; i++)
        log_files_find_new(files, logs->folders[i], root, files->start_ns, end_ns, false);
    if (clock_now_ns() < until_ns)
        log_files_find_new(files, files->cwd, root, files->start_ns, end_ns, true);
}

/* Logs that were written too soon for anybody to be seen with them. */
static void find_written(struct logs *logs)
{
    pid_t root = logs->observer->root;
    double ago = observe_seconds(logs->observer, clock_now_ns()) - logs->end;
    uint64_t end_ns = clock_wall_ns() - (ago > 0 ? (uint64_t)(ago * NS_PER_SECOND) : 0) + LOGS_TEE_MS * MS_NS;
    char path[PATH_MAX];
    if (!logs->failed || !logs->rows)
        return;
    for (size_t i = 0; i < sizeof log_places / sizeof *log_places; i++)
        if ((size_t)snprintf(path, sizeof path, "%s%s", logs->files.cwd, log_places[i]) < sizeof path)
            log_files_find_logs(&logs->files, path, root, end_ns);
    if (logs->elsewhere)
        log_files_find_logs(&logs->files, logs->elsewhere, root, end_ns);
    if (!has_error(logs))
        find_new(logs, root, end_ns);
    for (struct log_file *file = logs->files.files; file; file = file->hh.next)
        if (file->log && file->found == root && !file->failed) {
            file->failed = root;
            file->end = logs->end;
        }
}

/* What was asked for, and never was there. */
static void say_missing(struct logs *logs)
{
    for (const struct log_file *file = logs->files.files; file; file = file->hh.next)
        if (!file->seen && !file->tail.stream && file->tail.refused == ENOENT)
            note(logs, NOTE(log_missing, .file = file->name, .directory = logs->files.cwd));
    for (size_t i = 0; i < logs->files.name_count; i++)
        if (logs->files.names[i].wild && !logs->files.names[i].met)
            note(logs, NOTE(log_missing, .file = logs->files.names[i].shown, .directory = logs->files.cwd));
}

/* The last lines of a stream, whatever they say; NULL: there are none. A new reference. */
static json_t *last_lines(const struct log_file *file)
{
    char bytes[TAIL_LAST_BYTES + 1];
    json_t *lines = json_array();
    size_t len = file->tail.last_len, end = len;
    if (len)
        memcpy(bytes, file->tail.last, len);
    while (end && json_array_size(lines) < LAST_LINES) {
        size_t start = end;
        while (start && !strchr("\n\r", bytes[start - 1])) /* NULs, too */
            start--;
        if (!start && len == TAIL_LAST_BYTES)
            break; /* it is cut */
        size_t line = log_take_colours(bytes + start, end - start);
        bool blank = true;
        for (size_t i = start; i < start + line; i++)
            blank &= isspace((unsigned char)bytes[i]) != 0;
        if (!blank && !log_is_own(bytes + start, line) && !log_is_of_launcher(bytes + start, line) &&
            !log_is_of_trace(bytes + start, line) && !log_is_of_keys(bytes + start, line)) {
            bytes[start + text_fit(bytes + start, line, LAST_COLUMNS)] = 0;
            json_array_insert_new(lines, 0, text_json(bytes + start));
        }
        end = start ? start - 1 : 0;
    }
    if (json_array_size(lines))
        return lines;
    json_decref(lines);
    return NULL;
}

/* Of processes that failed, and had a file for themselves. */
static void put_last_words(struct logs *logs)
{
    for (const struct log_file *file = logs->files.files; file; file = file->hh.next) {
        json_t *lines = file->failed && logs->rows && !file->log ? last_lines(file) : NULL;
        if (lines)
            observe_put(logs->observer,
                        RECORD(log_last, .file = file->name, .quiet_seconds = quiet_seconds(&file->tail),
                               .lines = lines, .pid = file->failed, .shared = file->shared));
        json_decref(lines);
    }
}

/* "STOP 3", "ERROR STOP" of Fortran, which ends with that status and has said on standard output why. -1: it is none. */
static int bare_stop(const char *line, size_t len)
{
    static const char error[] = "ERROR ", stop[] = "STOP";
    const char *at = line, *end = line + len;
    bool failed = len > strlen(error) && memcmp(at, error, strlen(error)) == 0;
    at += failed ? strlen(error) : 0;
    if ((size_t)(end - at) < strlen(stop) || memcmp(at, stop, strlen(stop)) != 0)
        return -1;
    int status = 0;
    for (at += strlen(stop); at < end && *at == ' ';)
        at++;
    bool number = at < end && isdigit((unsigned char)*at);
    while (at < end && isdigit((unsigned char)*at) && status < 1000)
        status = 10 * status + (*at++ - '0');
    while (at < end && isspace((unsigned char)*at))
        at++;
    return at < end ? -1 : number ? status : failed;
}

/* "make: *** [Makefile:2: check] Error 1": that status; 0: it is none. */
static int told_by_make(const char *line, size_t len)
{
    static const char make[] = "make", stars[] = ": *** ", error[] = "] Error ";
    const char *found =
        len > strlen(make) && memcmp(line, make, strlen(make)) == 0 ? memmem(line, len, error, strlen(error)) : NULL;
    return found && memmem(line, len, stars, strlen(stars)) ? atoi(found + strlen(error)) : 0;
}

/* The status of what only ended so: that of a STOP, or that make tells and nothing else is said on standard error; 0: it is neither. */
static int find_wordless(const struct tail *tail)
{
    int stop = 0, told = 0;
    bool make = true;
    for (size_t at = 0; at < tail->last_len;) {
        const char *line = tail->last + at, *newline = memchr(line, '\n', tail->last_len - at);
        size_t len = newline ? (size_t)(newline - line) : 0; /* what is not whole is left out */
        int its = bare_stop(line, len), status = told_by_make(line, len);
        stop = its > 0 ? its : stop;
        told = told ? told : status;
        make &= !len || status || log_is_own(line, len);
        at += newline ? len + 1 : tail->last_len - at;
    }
    return stop ? stop : make ? told : 0;
}

/* What make printed as its recipe. */
static bool is_recipe(const char *line, const struct log_failed *failed)
{
    for (const char *at = line; *at;) {
        size_t len = strcspn(at, " \t;&|"), base = len;
        while (base && at[base - 1] != '/')
            base--;
        if (failed->names[0] && strlen(failed->names[0]) == len - base &&
            memcmp(at + base, failed->names[0], len - base) == 0)
            return true;
        at += len + (at[len] != 0);
    }
    return false;
}

/* What stood on standard output before something ended without a word on standard error is what it said, as if it had that for itself. */
static void put_wordless(struct logs *logs)
{
    const struct log_file *error = NULL, *output = NULL;
    const struct log_failed *failed = NULL;
    for (const struct log_file *file = logs->files.files; file; file = file->hh.next) {
        bool own = file->tail.stream && file->matcher.rows && !file->found && file->tail.last_len;
        error = own && strcmp(file->name, "stderr") == 0 ? file : error;
        output = own && strcmp(file->name, "stdout") == 0 ? file : output;
    }
    int status = error && output ? find_wordless(&error->tail) : 0;
    for (size_t i = 0; i < FAILED_KEPT && i < logs->failure_count && status; i++)
        if (logs->failures[i].status == W_EXITCODE(status, 0) && (!failed || logs->failures[i].end < failed->end))
            failed = &logs->failures[i];
    json_t *lines = failed ? last_lines(output) : NULL;
    const char *last;
    while ((last = json_string_value(json_array_get(lines, json_array_size(lines) - 1))) != NULL &&
           strncmp(last, "make", strlen("make")) == 0 && strchr("[:", last[strlen("make")]))
        json_array_remove(lines, json_array_size(lines) - 1); /* "make[1]: Leaving directory ..." */
    if (last && !is_recipe(last, failed))
        observe_put(logs->observer, RECORD(log_last, .file = output->name, .lines = lines, .pid = failed->pid,
                                           .quiet_seconds = quiet_seconds(&output->tail),
                                           .shared = failed->pid != logs->observer->root));
    json_decref(lines);
}

/* Of that nothing fails. */
static bool are_warnings(const json_t *lines)
{
    static const char word[] = "warn";
    size_t index;
    json_t *line;
    bool all = true;
    json_array_foreach(lines, index, line) all &= strcasestr(json_string_value(line), word) != NULL;
    return all;
}

/* Whether the last lines of a stream tell more of the end than those of the other: standard error, or what went on long after that was
 * silent. */
static bool tells_more(const struct log_file *one, const struct log_file *other)
{
    const uint64_t one_ns = one->tail.last_ns, other_ns = other->tail.last_ns;
    const uint64_t near_ns = LOGS_NEAR_SECONDS * (uint64_t)NS_PER_SECOND;
    bool one_error = strcmp(one->name, "stderr") == 0, other_error = strcmp(other->name, "stderr") == 0;
    if (one_error != other_error)
        return one_error ? other_ns <= one_ns + near_ns : one_ns > other_ns + near_ns;
    return one_ns > other_ns;
}

/* The last lines of standard output, where those of standard error are told and were not written long after them. NULL: none. */
static json_t *lines_beside(const struct logs *logs, const struct log_file *said)
{
    const uint64_t near_ns = CAUSE_FAILURE_SECONDS * (uint64_t)NS_PER_SECOND;
    for (const struct log_file *file = logs->files.files; file; file = file->hh.next)
        if (strcmp(said->name, "stderr") == 0 && strcmp(file->name, "stdout") == 0 && file->tail.stream &&
            file->matcher.rows && !file->found && file->tail.last_ns + near_ns >= said->tail.last_ns)
            return last_lines(file);
    return NULL;
}

/* What is known where no pattern matches: of standard error, unless it only warns, or else of what was written last. */
static void put_last(struct logs *logs)
{
    const struct log_file *said = NULL;
    json_t *lines = NULL;
    bool warns = false; /* what is known so far */
    for (const struct log_file *file = logs->files.files; file; file = file->hh.next) {
        bool stream = file->tail.stream && file->matcher.rows && !file->log;
        json_t *its = stream ? last_lines(file) : NULL;
        bool their_warns = its && are_warnings(its);
        bool better = !said || (warns != their_warns ? warns : tells_more(file, said));
        if (!its || !better) {
            json_decref(its);
            continue;
        }
        json_decref(lines);
        lines = its;
        said = file;
        warns = their_warns;
    }
    json_t *output = lines ? lines_beside(logs, said) : NULL;
    if (lines)
        observe_put(logs->observer,
                    RECORD(log_last, .file = said->name, .quiet_seconds = quiet_seconds(&said->tail), .lines = lines,
                           .pid = -1, .line = said->matcher.line > 0 ? said->matcher.line : 0, .output = output));
    json_decref(output);
    json_decref(lines);
}

/* What `exec > >(tee log)` has started writes the last lines when the script has ended, which does not wait for it. */
static void wait_for_tees(const struct logs *logs)
{
    uint64_t until_ns = clock_now_ns() + LOGS_TEE_MS * MS_NS;
    for (const struct observed_process *each = logs->observer->processes; each; each = each->hh.next)
        while (strcmp(each->name, "tee") == 0 && clock_now_ns() < until_ns) {
            char state = proc_letter(each->pid, 0);
            if (!state || state == 'Z')
                break;
            wait_fd(-1, 0, 1);
        }
}

static void logs_end(void *state)
{
    struct logs *logs = state;
    uint64_t until_ns = clock_now_ns() + LOGS_END_MS * MS_NS;
    bool any = false;
    loop_remove(logs->timer);
    wait_for_tees(logs);
    logs->scan_ns = 0;
    scan(logs, clock_now_ns());
    for (int i = 0; i <= TAIL_QUIET_LOOKS; i++) { /* also what has another file's name now */
        look(logs);
        skip(logs, BEHIND_MOST, BEHIND_KEPT, "there was no time left for it when the job ended");
        if (read_files(logs, UINT64_MAX, until_ns, &any))
            skip(logs, 0, 0, "there was no time left for it when the job ended");
    }
    find_outputs(logs);
    find_written(logs);
    for (struct log_file *file = logs->files.files; file; file = file->hh.next)
        tail_end(&file->tail);
    match_failed(logs, false);
    if (!has_error(logs))
        match_failed(logs, true);
    say_rest(logs, clock_now_ns(), true);
    for (struct log_file *file = logs->files.files; file; file = file->hh.next)
        say_skipped(logs, file);
    say_missing(logs);
    put_last_words(logs);
    put_wordless(logs);
    put_last(logs);
    free_logs(logs);
}

const struct observe_source logs_source = {.name = "logs",
                                           .start = logs_start,
                                           .process = logs_process,
                                           .process_ended = logs_process_ended,
                                           .tick = logs_tick,
                                           .changed = logs_changed,
                                           .end = logs_end};
