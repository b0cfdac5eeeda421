/* SPDX-License-Identifier: Apache-2.0 */
/* scry monitor: becomes the program scry-monitor, which links much more than a command line needs. */
#include "cli/cli.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/dirs.h"

int cmd_monitor(const struct options *options)
{
    char path[PATH_MAX];
    struct err err;
    if (dirs_libexec("scry-monitor", path, sizeof path, &err) < 0) {
        fprintf(stderr, "scry monitor: %s\n", err.text);
        return EXIT_USAGE;
    }
    options->argv[0] = path;
    execv(path, options->argv);
    perror(path);
    return EXIT_USAGE;
}
