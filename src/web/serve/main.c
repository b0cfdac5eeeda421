/* SPDX-License-Identifier: Apache-2.0 */
/* scry-serve: what `scry serve` becomes. `scry-serve --routes` prints the table of paths, for a test. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/data/cleanup.h"
#include "base/system/log.h"
#include "jobdir/text/text.h"
#include "options/options.h"
#include "web/serve/invite.h"
#include "web/serve/routes.h"
#include "web/http/server.h"

static int print_routes(void)
{
    for (size_t i = 0; i < route_count; i++)
        printf("%s\t%s\t%s\t%s\n", method_name(route_rows[i].method), route_rows[i].path,
               route_rows[i].arguments ? route_rows[i].arguments : "", route_rows[i].right ? "session" : "");
    return 0;
}

static int serve(int argc, char **argv)
{
    struct options options;
    struct err err = {0};
    int status;
    if (options_parse(&options, COMMAND_SERVE, argc, argv, &err) < 0) {
        _cleanup_(buf_done) struct buf shown = BUF_INIT;
        text_show(&shown, err.text);
        log_error("%s", shown.data ? shown.data : "out of memory");
        status = 2;
    } else if (options_on(&options, "link") || options_on(&options, "bearer")) {
        status = invite(&options);
    } else {
        status = server_run(&options);
    }
    options_done(&options);
    return status;
}

int main(int argc, char **argv)
{
    umask(077);
    signal(SIGPIPE, SIG_IGN);
    log_open("scry serve", 0);
    if (argc == 5 && strcmp(argv[1], "--files") == 0) /* for the server itself */
        return files_print(argv[2], argv[3], argv[4]);
    return argc == 2 && strcmp(argv[1], "--routes") == 0 ? print_routes() : serve(argc, argv);
}
