/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands that become programs of their own: scry monitor, link, keys, site, serve, record. So no other command loads what these
 * need. With --state, scry monitor asks the running monitor.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/dirs.h"
#include "base/system/log.h"
#include "cli/common/cli.h"
#include "client/client.h"
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
