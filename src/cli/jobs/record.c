/* SPDX-License-Identifier: Apache-2.0 */
/* scry record: scry-record does it, so that no other command loads databases. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/system/dirs.h"
#include "base/system/log.h"
#include "cli/common/cli.h"

static int check(const struct options *options)
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
    int status = check(options);
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
