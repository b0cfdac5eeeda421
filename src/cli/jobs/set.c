/* SPDX-License-Identifier: Apache-2.0 */
/* scry set, scry stop, scry signal: change what a running job records, end it, and send it signals. */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>
#include <scry/omis.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/log.h"
#include "base/system/proc_file.h"
#include "base/system/process.h"
#include "cli/common/cli.h"
#include "cli/common/find.h"
#include "cli/common/nodes.h"
#include "client/client.h"
#include "job/logs/logs.h"
#include "job/watch/options.h"
#include "job/watch/tracing.h"
#include "jobdir/record/info.h"
#include "jobdir/record/model.h"
#include "jobdir/text/text.h"
#include "lang/value.h"
#include "options/table.h"
#include "shm/waits.h"

static int reach_monitor(const struct found_job *job, struct err *err)
{
    if (!job->remote)
        client_set_timeout(wait_policies[WAIT_SET].limit_ms);
    bool joined = job->remote && job->url.data ? client_join_job(job->url.data) : client_join();
    return joined ? 0 : err_set(err, -ENOTCONN, "%s", client_error());
}

/* The directory as the monitor knows it: @last can be a link. */
static int job_find_running(const char *word, struct found_job *ret_job, struct job_info *ret_info,
                            enum job_state *ret_state, struct err *err)
{
    *ret_info = (struct job_info){0};
    int code = find_job(ret_job, word, err);
    _cleanup_(freep) char *real = code == 0 && !ret_job->remote ? realpath(ret_job->path, NULL) : NULL;
    if (real && strlen(real) < sizeof ret_job->dir)
        memcpy(ret_job->dir, real, strlen(real) + 1);
    if (code == 0)
        code = job_info_read_state(ret_job->path, ret_info, ret_state, err);
    return code;
}

/* ---- changing ---- */

/* Warns about settings that hold only from now on. */
static void say_limits(char **pairs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(pairs[i], "mpi=messages") == 0)
            log_warning(
                "mpi=messages: messages have numbers, and queues are known, only for ranks that call MPI_Init from now "
                "on; for the others they are uncertain: start the job with --mpi messages");
}

/* Warns about a selection that matches nothing, mostly a typing error. Large programs are searched for some time. */
static void say_unmatched(const char *path, char **pairs, size_t count, bool others)
{
    enum { LOOKS = 100 };
    bool chosen = false;
    for (size_t i = 0; i < count; i++)
        if (strncmp(pairs[i], "trace=", 6) == 0)
            chosen = strcmp(pairs[i], "trace=off") != 0;
    struct trace_info info = {.choosing = 1};
    for (int look = 0; chosen && info.choosing && look < LOOKS; look++) {
        struct buf text = BUF_INIT;
        if (look)
            nanosleep(&(struct timespec){.tv_nsec = SET_LOOK_NS}, NULL);
        PUT_CALL(&text, "job_trace_info", path);
        Omis_reply reply = client_ask(&text);
        tracing_answer(reply, &info);
        omis_reply_free(reply);
    }
    if (chosen && *info.unmatched) {
        _cleanup_(buf_done) struct buf shown = BUF_INIT;
        text_show(&shown, info.unmatched);
        log_warning("%s%s", shown.data ? shown.data : "",
                    others ? " on the node where the job began" : "; nothing is recorded until you set another one");
    }
}

/* Prints what was refused; the rest is in force. pairs: NULL if it is no setting. */
static int refusal_explain(Omis_reply reply, char **pairs)
{
    int status = 0;
    _cleanup_(omis_reader_freep) struct omis_reader *reader = omis_reader_new(reply);
    while (omis_reader_next(reader)) {
        if (omis_reader_status(reader) < OMIS_FIRST_ERROR)
            continue;
        struct err err = {0};
        size_t i = omis_reader_action(reader);
        const char *text = omis_reader_text(reader);
        const char *pair = pairs && i ? pairs[i - 1] : NULL;
        err_set(&err, -EINVAL, "%.*s%s%s", pair ? (int)strcspn(pair, "=") : 0, pair ? pair : "", pair ? ": " : "",
                *text ? text : omis_status_name(omis_reader_status(reader)));
        cli_log_error(&err);
        status = EXIT_ERRORS;
    }
    return status;
}

/* The same on the job's other nodes. *ret_others: there are some. */
static int change_parts(const char *dir, char **pairs, size_t count, bool *ret_others)
{
    struct job_nodes nodes;
    struct err err = {0};
    struct buf text = BUF_INIT, names = BUF_INIT, missing = BUF_INIT;
    int status = 0, code = job_nodes_attach(&nodes, dir, &err);
    size_t reached = code == 0 ? job_nodes_put(&names, &nodes, 1) : 0;
    *ret_others = code == 0 && job_nodes_has_others(&nodes);
    for (size_t i = 0; reached && i < count; i++) {
        size_t key_len = strcspn(pairs[i], "=");
        _cleanup_(freep) char *key = strndup(pairs[i], key_len);
        if (!key || !run_option_is_for_parts(key))
            continue;
        buf_printf(&text, ":job_part_set(%s,", names.data);
        PUT(&text, dir, key, pairs[i] + key_len + 1);
        buf_putc(&text, ')');
    }
    _cleanup_(omis_reader_freep) struct omis_reader *reader = text.len ? omis_reader_take(client_ask(&text)) : NULL;
    while (reader && omis_reader_next(reader)) {
        const char *why = omis_reader_error(reader);
        const char *name = job_nodes_name(&nodes, omis_reader_object(reader, 0));
        if (why) {
            err_set(&err, -EIO, "node %s goes on as it was: %s", name ? name : "?", why);
            cli_log_error(&err);
            status = EXIT_ERRORS;
        }
    }
    if (code == 0)
        job_nodes_put_problems(&missing, &nodes);
    if (missing.len || code < 0) {
        if (missing.len)
            err_set(&err, -EIO, "not all nodes were told: %s", missing.data);
        cli_log_error(&err);
        status = EXIT_ERRORS;
    }
    buf_done(&text);
    buf_done(&names);
    buf_done(&missing);
    job_nodes_done(&nodes);
    return status;
}

/* Its directory may lie on a file system that many nodes see. */
static bool is_here(const struct job_info *info)
{
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    return strcmp(host, info->host) == 0;
}

/* A session with the monitor of a job that must run. verb: what is to be done to it. */
static int reach_running(const struct found_job *job, const struct job_info *info, enum job_state state,
                         const char *verb, const char *verbed, struct err *err)
{
    bool elsewhere = !job->remote && !is_here(info);
    if (state == JOB_UNWATCHED || state == JOB_LOST)
        return err_set(err, -ESRCH, "job %s is %s, for its scry run was killed: only a running job can be %s", info->id,
                       job_state_name(state), verbed);
    if (state != JOB_RUNNING)
        return err_set(err, -ESRCH, "job %s is %s: only a running job can be %s", info->id, job_state_name(state),
                       verbed);
    if (elsewhere)
        return err_set(err, -EREMOTE, "job %s runs on %s: %s it there", info->id, info->host, verb);
    return reach_monitor(job, err);
}

static int settings_change(const char *word, char **pairs, size_t count)
{
    struct found_job job;
    struct job_info info;
    enum job_state state;
    struct err err = {0};
    struct buf text = BUF_INIT;
    int code = job_find_running(word, &job, &info, &state, &err);
    if (code == 0)
        code = reach_running(&job, &info, state, "change", "changed", &err);
    job_info_done(&info);
    if (code < 0) {
        cli_log_error(&err);
        find_close(&job);
        return EXIT_ERRORS;
    }
    for (size_t i = 0; i < count; i++) {
        size_t key_len = strcspn(pairs[i], "=");
        _cleanup_(freep) char *key = strndup(pairs[i], key_len);
        PUT_CALL(&text, "job_set", job.dir, key, pairs[i] + key_len + 1);
    }
    Omis_reply reply = client_ask(&text);
    bool others = false;
    int status = reply ? refusal_explain(reply, pairs) : EXIT_ERRORS;
    if (status == 0) {
        say_limits(pairs, count);
        status = job.remote ? 0 : change_parts(job.dir, pairs, count, &others);
        say_unmatched(job.dir, pairs, count, others);
    }
    omis_reply_free(reply);
    omis_finalize();
    find_close(&job);
    return status;
}

/* ---- showing ---- */

/* As the monitor has it. False: it does not know the job. */
static bool ask_settings(const struct found_job *job, json_t *settings)
{
    struct err err;
    struct buf text = BUF_INIT;
    if (reach_monitor(job, &err) < 0) {
        if (client_timed_out() || job->remote)
            log_warning("these are the recorded settings: %s", err.text);
        return false;
    }
    PUT_CALL(&text, "job_get_settings", job->dir);
    _cleanup_(omis_reader_freep) struct omis_reader *reader = omis_reader_take(client_ask(&text));
    omis_reader_find(reader, 1);
    const struct omis_value *values = omis_reader_values(reader);
    bool known = omis_count(values) > 0;
    const struct omis_value *list = known ? omis_item(values, omis_count(values) - 1) : NULL;
    for (size_t i = 0; i + 1 < omis_count(list); i += 2)
        json_object_set_new(settings, omis_text(omis_item(list, i), NULL),
                            text_json(omis_text(omis_item(list, i + 1), NULL)));
    omis_finalize();
    return known;
}

static void print_settings(json_t *settings)
{
    const char *key;
    json_t *value;
    json_object_foreach(settings, key, value)
    {
        _cleanup_(buf_done) struct buf line = BUF_INIT;
        text_show(&line, key);
        buf_putc(&line, '=');
        text_show(&line, json_string_value(value) ? json_string_value(value) : "");
        puts(line.data ? line.data : "");
    }
}

/* What holds if nobody sets it, written as the monitor has it. */
static void put_defaults(json_t *settings)
{
    for (const struct option_row *row = option_rows; row < option_rows + option_row_count; row++) {
        if (!(row->flags & OPTION_SETTING) || json_object_get(settings, row->name) || strcmp(row->name, "log") == 0)
            continue; /* which logs were given at the start is not recorded */
        const char *value = row->otherwise                  ? row->otherwise
                            : strcmp(row->name, "on") == 0  ? "yes"
                            : row->type == OPTION_SWITCH    ? "no"
                            : row->type == OPTION_LIST      ? "off"
                            : row->type == OPTION_SELECTION ? ""
                                                            : "0";
        json_object_set_new(settings, row->name, json_string(value));
    }
}

static int settings_show(const char *word, bool json)
{
    struct found_job job;
    char seconds[32];
    struct job_info info;
    enum job_state state;
    struct err err = {0};
    int code = job_find_running(word, &job, &info, &state, &err);
    if (code < 0) {
        job_info_done(&info);
        find_close(&job);
        cli_log_error(&err);
        return EXIT_ERRORS;
    }
    json_t *settings = json_object();
    snprintf(seconds, sizeof seconds, "%g", info.sample_seconds);
    json_object_set_new(settings, "sample", json_string(seconds));
    put_defaults(settings);
    settings_read(job.path, settings);
    if (state == JOB_RUNNING)
        ask_settings(&job, settings);
    job_info_done(&info);
    find_close(&job);
    if (json) {
        text_print_json(settings, JSON_INDENT(2));
    } else {
        print_settings(settings);
    }
    json_decref(settings);
    return 0;
}

static int check_value(const char *key, const char *value, struct err *err)
{
    struct run_options logs = {.log_patterns = strcmp(key, "log-patterns") == 0 ? value : "off"};
    int code = run_setting_check(key, value, err);
    if (strcmp(key, "log") == 0 && strcmp(value, "off") != 0)
        logs.logs[logs.log_count++] = value;
    return code < 0 ? code : logs_check(&logs, err);
}

/* 0, or -errno after printing what is wrong. Nothing is sent if one of them is wrong. */
static int settings_check(const struct options *options, char **pairs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct err err = {0};
        char *equals = strchr(pairs[i], '=');
        if (!equals) {
            cli_usage_error(options, "\"%s\" is not KEY=VALUE", pairs[i]);
            return -EINVAL;
        }
        *equals = 0;
        int code = check_value(pairs[i], equals + 1, &err);
        *equals = '=';
        if (code < 0) {
            cli_log_error(&err);
            return code;
        }
    }
    return 0;
}

int cmd_set(const struct options *options)
{
    bool json = options_on(options, "json");
    char **pairs = options->words + 1;
    size_t count = options->word_count - 1;
    if (count && json)
        return cli_usage_error(options, "--json only shows settings");
    if (!count)
        return settings_show(options->words[0], json);
    return settings_check(options, pairs, count) < 0 ? EXIT_USAGE : settings_change(options->words[0], pairs, count);
}

/* ---- signals ---- */

static const char STOP[] = "stop"; /* for the record: this command */

static const char *what_next(const char *way, int signo)
{
    return strcmp(way, STOP) != 0 || signo == SIGKILL ? "" : "; if one goes on: scry stop --kill";
}

/* By the job's monitor, which makes it a record of the job. way: of this command, for the reason that it may be. */
static int signal_running(const struct found_job *job, const char *name, const char *way, int signo)
{
    char room[32];
    struct buf text = BUF_INIT;
    PUT_CALL(&text, "job_send_signal", job->dir, way, signo);
    Omis_reply reply = client_ask(&text);
    int status = reply ? refusal_explain(reply, NULL) : EXIT_ERRORS;
    if (status == 0)
        printf("%s was sent to %s job %s%s\n", text_signal(signo, room, sizeof room),
               process_signal_is_for_all(signo) ? "all processes of" : "the command of", name, what_next(way, signo));
    omis_reply_free(reply);
    omis_finalize();
    return status;
}

/* What lived when its records ended. A directory of somebody else could name any process. */
static void read_alive(const char *path, const struct job_info *info, struct job_model *ret_model)
{
    char boot[64], spool[PATH_MAX];
    struct stat dir, file;
    job_boot_id(boot, sizeof boot);
    snprintf(spool, sizeof spool, "%.*s/spool/records.jsonl", PATH_MAX - 32, path);
    if (job_model_init(ret_model, 0) == 0 && info->began_ns && *boot && strcmp(boot, info->boot_id) == 0 &&
        stat(path, &dir) == 0 && dir.st_uid == geteuid() && stat(spool, &file) == 0 && file.st_uid == geteuid())
        job_model_read(ret_model, path, NULL, NULL);
}

/* Is it one of these, and no later process with its number? */
static bool is_alive_still(const struct job_model *model, const struct job_info *info, pid_t pid, uint64_t ticks)
{
    const struct job_process *process;
    HASH_FIND_INT(model->alive, &pid, process);
    double asleep_ns = (double)clock_ns(CLOCK_BOOTTIME) - (double)clock_now_ns(); /* records have the monotonic clock */
    double began_ns = (double)ticks * NS_PER_SECOND / (double)sysconf(_SC_CLK_TCK) - asleep_ns - (double)info->began_ns;
    return process && fabs(began_ns - process->start * NS_PER_SECOND) < SAME_START_NS;
}

/* Processes that say by their environment that they are the job's, which nobody else can have them say, or that its records have. How
 * many got the signal; *ret_names: which. */
static size_t signal_left(const char *path, const struct job_info *info, int signo, struct buf *ret_names)
{
    enum { NAMED_MOST = 8 };
    size_t count = 0;
    struct job_model model;
    read_alive(path, info, &model);
    DIR *processes = opendir("/proc");
    for (struct dirent *entry; processes && (entry = readdir(processes));) {
        char name[64];
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        uint64_t ticks = pid > 0 && pid != getpid() ? job_process_ticks(pid) : 0;
        proc_comm(pid, 0, name, sizeof name);
        if (!ticks || process_is_scrys(name) ||
            (!job_has_process(path, pid) && !is_alive_still(&model, info, pid, ticks)) ||
            job_process_signal(pid, ticks, signo) < 0)
            continue;
        if (count++ < NAMED_MOST) {
            buf_puts(ret_names, count == 1 ? "" : ", ");
            text_show(ret_names, name);
            buf_printf(ret_names, " (pid %d)", (int)pid);
        }
    }
    if (count > NAMED_MOST)
        buf_printf(ret_names, " and %zu more", count - NAMED_MOST);
    if (processes)
        closedir(processes);
    job_model_done(&model);
    return count;
}

/* Its scry run has ended, or was killed, so no monitor knows its processes. */
static int stop_left(const struct found_job *job, const struct job_info *info, enum job_state state, int signo,
                     struct err *err)
{
    char room[32];
    _cleanup_(buf_done) struct buf names = BUF_INIT;
    if (state == JOB_UNWATCHED && !job_has_process(job->path, info->root))
        return err_set(err, -EPERM,
                       "job %s is unwatched, for its scry run was killed, and process %d does not say that it is its "
                       "command: kill %d ends it",
                       info->id, (int)info->root, (int)info->root);
    if (!signal_left(job->path, info, signo, &names))
        return err_set(err, -ESRCH,
                       state == JOB_ENDED ? "job %s has ended, and nothing that it left runs here"
                                          : "job %s is lost: neither its command nor its scry run is there any more, "
                                            "and nothing that they left runs here",
                       info->id);
    printf("%s was sent to what still runs of job %s, %s: %s%s\n", text_signal(signo, room, sizeof room), info->id,
           state == JOB_ENDED ? "which has ended" : "whose scry run was killed", names.data, what_next(STOP, signo));
    return 0;
}

static int job_signal(const char *word, const char *way, int signo)
{
    struct found_job job;
    struct job_info info;
    enum job_state state;
    struct err err = {0};
    _cleanup_(buf_done) struct buf shown = BUF_INIT;
    int status = 0, code = job_find_running(word, &job, &info, &state, &err);
    bool stops = strcmp(way, STOP) == 0, over = state == JOB_ENDED || state == JOB_UNWATCHED || state == JOB_LOST;
    if (code == 0 && stops && over && !job.remote && is_here(&info)) {
        code = stop_left(&job, &info, state, signo, &err);
    } else if (code == 0 && (code = reach_running(&job, &info, state, stops ? "end" : "signal",
                                                  stops ? "ended" : "sent a signal", &err)) == 0) {
        text_show(&shown, job.remote ? word : text_base(job.dir));
        status = signal_running(&job, shown.data ? shown.data : "", way, signo);
    }
    if (code < 0)
        cli_log_error(&err);
    job_info_done(&info);
    find_close(&job);
    return code < 0 ? EXIT_ERRORS : status;
}

/* 0 after saying what is wrong. */
static int signal_of(const struct options *options, const char *word)
{
    struct fuzzy_match meant = {.distance = FUZZY_NONE};
    int signo = text_signal_number(word);
    size_t start = strncasecmp(word, "SIG", 3) == 0 ? 3 : 0;
    if (signo)
        return signo;
    for (int i = 1; i < NSIG; i++)
        if (sigabbrev_np(i))
            fuzzy_match_try(&meant, word + start, strlen(word + start), sigabbrev_np(i));
    cli_usage_error(options, "%s is no signal%s%s%s", word, *meant.text ? " (did you mean " : ": kill -l lists them",
                    meant.text, *meant.text ? "?)" : "");
    return 0;
}

int cmd_stop(const struct options *options)
{
    bool given = options_given(options, "signal"), kill = options_on(options, "kill");
    if (given && kill)
        return cli_usage_error(options, "--kill is --signal KILL: one of both");
    int signo = given ? signal_of(options, options_text(options, "signal")) : kill ? SIGKILL : SIGTERM;
    return signo ? job_signal(options->words[0], STOP, signo) : EXIT_USAGE;
}

int cmd_signal(const struct options *options)
{
    int signo = signal_of(options, options->words[1]);
    return signo ? job_signal(options->words[0], "signal", signo) : EXIT_USAGE;
}
