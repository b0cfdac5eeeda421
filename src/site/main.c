/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scry-site: what `scry site` becomes, and the part of `scry record` that tells others of jobs:
 *
 *     scry-site OPTION...                  see scry-site(1)
 *     scry-site serve metrics URL SECONDS  see serve.h; "-": not that one. The record is $SCRY_RECORD
 */
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/log.h"
#include "jobdir/text/text.h"
#include "options/options.h"
#include "site/serve.h"
#include "site/site.h"
#include "store/store.h"

enum { FAILED = 1, USAGE = 2 };

static int fail(const struct err *err)
{
    _cleanup_(buf_done) struct buf shown = BUF_INIT;
    text_show(&shown, err->text);
    log_error("%s", shown.data ? shown.data : "out of memory");
    return FAILED;
}

static int print(const struct site *site, bool as_json)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    if (as_json) {
        json_t *json = site_json(site);
        char *text = json ? json_dumps(json, JSON_INDENT(2)) : NULL;
        json_decref(json);
        buf_puts(&out, text ? text : "");
        buf_putc(&out, '\n');
        out.failed |= !text;
        free(text);
    } else {
        site_print(&out, site, text_columns(STDOUT_FILENO));
    }
    if (out.failed)
        return fail(&(struct err){-1, "out of memory"});
    if (fwrite(out.data, 1, out.len, stdout) < out.len || fflush(stdout) != 0)
        return fail(&(struct err){-1, "cannot write to standard output"});
    return 0;
}

static int cmd_site(int argc, char **argv)
{
    struct options options;
    struct err err = {0};
    struct store *store = NULL;
    struct site site = {0};
    char where[PATH_MAX];
    if (options_parse(&options, COMMAND_SITE, argc, argv, &err) < 0) {
        fail(&err);
        options_done(&options);
        return USAGE;
    }
    struct site_filter filter = {options_text(&options, "owner"), options_text(&options, "node"),
                                 (double)options_number(&options, "since") / NS_PER_SECOND};
    int code = store_place(options_text(&options, "record"), where, sizeof where, &err);
    if (code == 0)
        code = store_open(&store, where, DB_READ, &err);
    if (code == 0)
        code = site_ask(&site, store_db(store), &filter, &err);
    int status = code < 0 ? fail(&err) : print(&site, options_on(&options, "json"));
    site_done(&site);
    store_close(store);
    options_done(&options);
    return status;
}

static int cmd_serve(char **argv)
{
    char where[PATH_MAX];
    struct err err = {0};
    log_open("scry record", 0);
    if (store_place(NULL, where, sizeof where, &err) < 0)
        return fail(&err);
    return serve_run(where, strcmp(argv[2], "metrics") == 0, strcmp(argv[3], "-") == 0 ? NULL : argv[3],
                     strtod(argv[4], NULL));
}

int main(int argc, char **argv)
{
    umask(077);
    signal(SIGPIPE, SIG_IGN);
    log_open("scry site", 0);
    if (argc == 5 && strcmp(argv[1], "serve") == 0)
        return cmd_serve(argv);
    return cmd_site(argc, argv);
}
