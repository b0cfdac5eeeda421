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
    return 0;
}

int cmd_record(const struct options *options)
{
    char path[PATH_MAX];
    struct err err = {0};
    const char *broker = options_text(options, "broker");
    char **argv = calloc(options->word_count + 2 * options->count + 8, sizeof *argv);
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
    if (broker) /* it may have a password, which no list of processes is to show */
        setenv("SCRY_BROKER", broker, 1);
    argv[count++] = path;
    argv[count++] = (char *)"record";
    for (char **word = options->argv + 1; *word && count < options->word_count + 2 * options->count + 6; word++) {
        if (strcmp(*word, "--broker") == 0 && word[1])
            word++;
        else if (strncmp(*word, "--broker=", 9) != 0)
            argv[count++] = *word;
    }
    execv(path, argv);
    log_error("cannot run %s: %s", path, strerror(errno));
    free(argv);
    return EXIT_USAGE;
}
