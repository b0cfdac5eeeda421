/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scry monitor, scry link, scry keys, scry serve: become programs of their own. With --state, scry monitor asks the running monitor.
 */
#include "cli/common/cli.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/data/cleanup.h"
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
