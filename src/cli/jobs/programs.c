/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands that become programs of their own: scry monitor, link, keys, site, serve, record. So no other command loads what these
 * need. With --state, scry monitor asks the running monitor.
 */
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/dirs.h"
#include "base/system/log.h"
#include "base/system/process.h"
#include "broker/local.h"
#include "broker/url.h"
#include "cli/common/cli.h"
#include "client/client.h"
#include "jobdir/record/dir.h"
#include "jobdir/record/info.h"
#include "shm/waits.h"

static int show_state(void)
{
    client_set_timeout(wait_policies[WAIT_SET].limit_ms);
    if (!client_join()) {
        log_error("%s", client_error());
        return EXIT_USAGE;
    }
    Omis_reply reply = client_request(span_str(":scry_monitor_get_state()"), NULL, NULL, 0);
    _cleanup_(omis_reader_freep) struct omis_reader *reader = omis_reader_take(reply);
    const char *error = omis_reader_first_error(reader);
    omis_reader_find(reader, 1);
    const struct omis_value *lines = omis_item(omis_reader_values(reader), 0);
    for (size_t i = 0; i < omis_count(lines); i++)
        puts(omis_text(omis_item(lines, i), NULL));
    if (error)
        log_error("%s", error);
    omis_finalize();
    return error ? EXIT_ERRORS : 0;
}

int cmd_monitor(const struct options *options)
{
    return options_on(options, "state") ? show_state() : cli_become(options, "scry-monitor");
}

int cmd_site(const struct options *options)
{
    return cli_become(options, "scry-site");
}

int cmd_serve(const struct options *options)
{
    char self[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    if (len > 0) { /* it asks this program's commands */
        self[len] = '\0';
        setenv("SCRY_PROGRAM", self, 1);
    }
    return cli_become(options, "scry-serve");
}

int cmd_link(const struct options *options)
{
    return cli_become(options, "scry-link");
}

int cmd_keys(const struct options *options)
{
    return cli_become(options, "scry-keys");
}

/* ---- scry record ---- */

static int check_record(const struct options *options)
{
    bool import = options_on(options, "import"), removes = options_on(options, "remove");
    if (import && removes)
        return cli_usage_error(options, "--import or --remove, not both");
    if (!options->word_count && (import || removes))
        return cli_usage_error(options, import ? "name job directories, or jobs" : "name jobs");
    if (options->word_count && !import && !removes)
        return cli_usage_error(options, "jobs are named with --import or --remove");
    if (!import && !removes && !options_given(options, "broker") && !options_given(options, "keep") &&
        !options_given(options, "keep-minutes"))
        return cli_usage_error(options, "give --broker URL, --import DIR or --remove JOB");
    if ((options_given(options, "metrics") || options_given(options, "otlp")) && !options_given(options, "broker"))
        return cli_usage_error(options, "--metrics and --otlp are for a recorder that follows jobs: give --broker URL");
    return 0;
}

int cmd_record(const struct options *options)
{
    char path[PATH_MAX];
    struct err err = {0};
    struct arena memory = {0};
    char **argv = calloc(options->word_count + options->count + 4, sizeof *argv);
    size_t count = 0;
    int status = check_record(options);
    if (status == 0 && dirs_libexec("scry-record", path, sizeof path, &err) < 0) {
        cli_log_error(&err);
        status = EXIT_USAGE;
    }
    if (status || !argv) {
        free(argv);
        return status ? status : EXIT_ERRORS;
    }
    argv[count++] = path;
    argv[count++] = (char *)"record";
    for (size_t i = 0; i < options->count; i++) {
        const struct option_given *given = &options->given[i];
        if (strcmp(given->row->name, "broker") == 0) /* it may have a password, which no list of processes is to show */
            setenv("SCRY_BROKER", given->text, 1);
        else
            argv[count++] = arena_printf(&memory, "--%s%s%s", given->row->name, *given->text ? "=" : "", given->text);
    }
    argv[count++] = (char *)"--";
    memcpy(argv + count, options->words, options->word_count * sizeof *argv);
    execv(path, argv);
    log_error("cannot run %s: %s", path, strerror(errno));
    arena_done(&memory);
    free(argv);
    return EXIT_USAGE;
}

/* scry broker: the user's private broker, in the foreground or in the background. scry publish: sends what was recorded of jobs to one. */

static int broker_fail(const struct err *err)
{
    cli_log_error(err);
    return EXIT_USAGE;
}

static int broker_show(void)
{
    struct broker_local found;
    struct err err;
    if (broker_local_find(&found, &err) < 0)
        return broker_fail(&err);
    if (!found.answers) {
        puts(found.pid ? "a private broker runs, but its socket is gone: scry broker --start starts another"
                       : "no private broker runs: scry broker --start starts one");
        return EXIT_ERRORS;
    }
    printf("a private broker runs: unix:%s", found.socket);
    if (found.pid)
        printf(" (process %d)", (int)found.pid);
    printf("\n%s %s\n", found.kept ? "it keeps what is retained in" : "what is retained ends with it; its files are in",
           found.place);
    return 0;
}

static int broker_stop(void)
{
    struct err err;
    int code = broker_local_stop(&err);
    if (code < 0)
        return broker_fail(&err);
    puts(code ? "no private broker runs" : "ended");
    return code ? EXIT_ERRORS : 0;
}

/* The broker starts anew from other directories. What cannot be found is said later. */
static const char *file_path(const struct options *options, const char *name, char path[PATH_MAX])
{
    const char *text = options_text(options, name);
    return text && realpath(text, path) ? path : text;
}

int cmd_broker(const struct options *options)
{
    bool starts = options_on(options, "start"), stops = options_on(options, "stop"),
         status = options_on(options, "status");
    bool files = options_given(options, "cert") || options_given(options, "key") || options_given(options, "ca") ||
                 options_given(options, "passwords");
    if (starts + stops + status > 1)
        return cli_usage_error(options, "one of --start, --stop and --status at a time");
    if ((stops || status) && (files || options_given(options, "tls")))
        return cli_usage_error(options, "--tls is for a start");
    if (files && !options_given(options, "tls"))
        return cli_usage_error(options, "--cert, --key, --ca and --passwords are for --tls [ADDRESS:]PORT");
    if (stops)
        return broker_stop();
    if (status)
        return broker_show();

    char cert[PATH_MAX], key[PATH_MAX], ca[PATH_MAX], passwords[PATH_MAX];
    struct broker_listener listener = {
        .tls = options_text(options, "tls"),
        .cert = file_path(options, "cert", cert),
        .key = file_path(options, "key", key),
        .ca = file_path(options, "ca", ca),
        .passwords = file_path(options, "passwords", passwords),
    };
    struct err err;
    if (starts) {
        int code = broker_local_start(listener.tls ? &listener : NULL, &err);
        return code < 0 ? broker_fail(&err) : broker_show();
    }
    broker_local_become(listener.tls ? &listener : NULL, &err);
    return broker_fail(&err);
}

/* ---- scry publish ---- */

/* Runs scry-publisher with these settings on its standard input. Its exit status, or -errno. */
static int run_publisher(const char *settings, size_t len)
{
    char path[PATH_MAX], name[] = "scry-publisher", *argv[] = {name, NULL};
    struct err err = {0};
    int ends[3];
    pid_t pid;
    if (dirs_libexec(name, path, sizeof path, &err) < 0) {
        cli_log_error(&err);
        return EXIT_USAGE;
    }
    const struct spawn spawn = {.path = path, .argv = argv, .in = SPAWN_PIPE, .out = SPAWN_SAME, .error = SPAWN_SAME};
    int code = spawn_piped(&spawn, &pid, ends);
    if (code < 0)
        return code;
    if (write(ends[0], settings, len) != (ssize_t)len) /* a pipe takes them at once */
        code = -EIO;
    close(ends[0]);
    int status = child_reap(pid);
    return code < 0 ? code : WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_ERRORS;
}

static int publish(const struct broker_url *url, const char *dir, const struct job_info *info)
{
    _cleanup_(buf_done) struct buf word = BUF_INIT;
    broker_url_put(&word, url);
    json_t *json =
        json_pack("{s:s, s:s?, s:s, s:s, s:s, s:b}", "type", "publish", "url", word.failed ? NULL : word.data, "dir",
                  dir, "job", info->id, "owner", url->owner[0] ? url->owner : info->user, "alone", 1);
    _cleanup_(freep) char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    _cleanup_(buf_done) struct buf line = BUF_INIT;
    json_decref(json);
    buf_puts(&line, text ? text : "");
    buf_putc(&line, '\n');
    int code = text && !line.failed ? run_publisher(line.data, line.len) : -ENOMEM;
    if (code < 0) {
        struct err err;
        err_errno(&err, code, "cannot start scry-publisher");
        cli_log_error(&err);
    }
    return code < 0 ? EXIT_USAGE : code;
}

static int publish_named(const struct broker_url *url, const char *job)
{
    char dir[PATH_MAX];
    struct err err = {0};
    struct job_info info = {0};
    int code = broker_url_is(job)
                   ? err_set(&err, -ENOTSUP, "a job at a broker is published already: name one of this machine")
                   : jobdir_find(job, dir, sizeof dir, &err);
    if (code == 0)
        code = job_info_read(dir, &info, &err);
    int status = EXIT_ERRORS;
    if (code < 0)
        cli_log_error(&err);
    else
        status = publish(url, dir, &info);
    job_info_done(&info);
    return status;
}

int cmd_publish(const struct options *options)
{
    struct broker_url url;
    struct err err = {0};
    const char *word = options_text(options, "broker");
    int status = 0;
    if (!word || !*word)
        return cli_usage_error(options, "name a broker with --broker, or in SCRY_BROKER");
    if (broker_url_parse(word, &url, &err) < 0) {
        cli_log_error(&err);
        return EXIT_USAGE;
    }
    if (url.job[0])
        return cli_usage_error(options, "--broker: leave out the job, '%s'", url.job);
    for (size_t i = 0; i < options->word_count; i++) {
        int one = publish_named(&url, options->words[i]);
        status = one > status ? one : status;
    }
    explicit_bzero(&url, sizeof url);
    return status;
}
