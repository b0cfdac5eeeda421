/* SPDX-License-Identifier: Apache-2.0 */
/* scry broker: the user's private broker, in the foreground or in the background. */
#include "cli/common/cli.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "broker/local.h"

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
