/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scry monitor: becomes the program scry-monitor, which links more than a command line needs. With --state it asks the
 * running monitor.
 */
#include "cli/common/cli.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/dirs.h"
#include "base/system/log.h"
#include "client/client.h"
#include "shm/waits.h"

static int show_state(void)
{
    client_set_patience(wait_policies[WAIT_SET].limit_ms);
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
    char path[PATH_MAX];
    struct err err;
    if (options_on(options, "state"))
        return show_state();
    if (dirs_libexec("scry-monitor", path, sizeof path, &err) < 0) {
        fprintf(stderr, "scry monitor: %s\n", err.text);
        return EXIT_USAGE;
    }
    options->argv[0] = path;
    execv(path, options->argv);
    perror(path);
    return EXIT_USAGE;
}
