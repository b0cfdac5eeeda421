/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scry-record: the recorder. Started by `scry record`, and by other commands that look for a job:
 *
 *     scry-record record OPTION...    see scry-record(1)
 *     scry-record fetch [--] JOB      makes a mirror of the job and prints its path; 3: there is no such job
 *     scry-record list [--] [N]       the same of the newest N jobs of all owners, without their records
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/log.h"
#include "base/system/process.h"
#include "broker/link.h"
#include "jobdir/record/dir.h"
#include "jobdir/text/text.h"
#include "options/options.h"
#include "store/follow.h"

enum { FAILED = 1, USAGE = 2, NOT_THERE = 3 };

static int print_failure(const struct err *err)
{
    _cleanup_(buf_done) struct buf shown = BUF_INIT;
    text_show(&shown, err->text);
    log_error("%s", shown.data ? shown.data : "out of memory");
    return FAILED;
}

/* ---- --import, --remove, --keep ---- */

static int import_all(struct store *store, const struct options *options)
{
    int status = 0;
    for (size_t i = 0; i < options->word_count; i++) {
        char path[PATH_MAX];
        struct err err = {0};
        struct stored_job *job;
        uint64_t before = store_written(store);
        int code = jobdir_find(options->words[i], path, sizeof path, &err);
        if (code == 0)
            code = import_job(store, path, &job, &err);
        if (code < 0) {
            status = print_failure(&err);
        } else if (!options_on(options, "quiet")) {
            _cleanup_(buf_done) struct buf shown = BUF_INIT;
            text_show(&shown, job->id);
            printf("%s  %llu new records, %lld in all%s\n", shown.data ? shown.data : "",
                   (unsigned long long)(store_written(store) - before), (long long)job->row.records,
                   job->row.complete ? "" : "; it is not over");
        }
    }
    return status;
}

static int remove_all(struct store *store, const struct options *options)
{
    char own[USER_NAME_BYTES];
    int status = 0;
    for (size_t i = 0; i < options->word_count; i++) {
        struct store_found found;
        struct err err = {0};
        int code = store_find(store, options->words[i], user_name(getuid(), own, sizeof own), &found, &err);
        if (code == 0)
            code = store_remove(store, found.key, &err);
        _cleanup_(buf_done) struct buf shown = BUF_INIT;
        if (code == 0) {
            text_show(&shown, found.owner);
            buf_putc(&shown, '/');
            text_show(&shown, found.id);
        }
        if (code < 0)
            status = print_failure(&err);
        else if (!options_on(options, "quiet"))
            printf("removed %s from the record\n", shown.data ? shown.data : "");
    }
    return status;
}

static int keep_records(struct store *store, const struct options *options)
{
    struct err err = {0};
    size_t days;
    int code = store_keep(store, (double)options_number(options, "keep") / NS_PER_SECOND,
                          (double)options_number(options, "keep-minutes") / NS_PER_SECOND,
                          (double)clock_wall_ns() / NS_PER_SECOND, &days, &err);
    if (code == 0 && days && !options_on(options, "quiet"))
        printf("dropped the records of %zu day%s\n", days, days == 1 ? "" : "s");
    return code < 0 ? print_failure(&err) : 0;
}

static int follow_broker(struct store *store, const struct options *options, const char *broker)
{
    char own[USER_NAME_BYTES];
    struct err err = {0};
    const char *owner = options_text(options, "owner");
    struct follow_options said = {
        .broker = broker,
        .owner = owner ? owner : user_name(getuid(), own, sizeof own),
        .all = owner && strcmp(owner, "all") == 0,
        .owner_said = owner != NULL,
        .once = options_on(options, "once"),
        .quiet = options_on(options, "quiet"),
        .keep_seconds = (double)options_number(options, "keep") / NS_PER_SECOND,
        .tell = {options_text(options, "metrics"), options_text(options, "otlp"),
                 (double)options_number(options, "otlp-retry") / NS_PER_SECOND},
        .keep_minutes_seconds = (double)options_number(options, "keep-minutes") / NS_PER_SECOND,
    };
    int code = follow_run(store, &said, &err);
    return code < 0 ? print_failure(&err) : code;
}

static int cmd_record(int argc, char **argv)
{
    struct options options;
    struct err err = {0};
    struct store *store = NULL;
    char where[PATH_MAX];
    if (options_parse(&options, COMMAND_RECORD, argc, argv, &err) < 0) {
        print_failure(&err);
        options_done(&options);
        return USAGE;
    }
    const char *broker = options_text(&options, "broker");
    int status = store_place(options_text(&options, "record"), where, sizeof where, &err) < 0 ||
                         store_open(&store, where, DB_WRITE, &err) < 0
                     ? print_failure(&err)
                     : 0;
    if (status == 0 && options_on(&options, "import"))
        status = import_all(store, &options);
    else if (status == 0 && options_on(&options, "remove"))
        status = remove_all(store, &options);
    else if (status == 0 && broker && setenv("SCRY_RECORD", where, 1) == 0) /* for the program that tells others */
        status = follow_broker(store, &options, broker);
    if (status == 0 && !broker && (options_given(&options, "keep") || options_given(&options, "keep-minutes")))
        status = keep_records(store, &options);
    store_close(store);
    options_done(&options);
    return status;
}

/* ---- fetch, list ---- */

static int cmd_fetch(struct store *store, const char *job)
{
    char own[256], path[PATH_MAX];
    struct store_found found;
    struct err err = {0};
    int code = store_find(store, job, user_name(getuid(), own, sizeof own), &found, &err);
    if (code == 0)
        code = fetch_job(store, &found, true, path, sizeof path, &err);
    if (code < 0)
        return code == -ENOENT ? NOT_THERE : print_failure(&err);
    puts(path);
    return 0;
}

struct listing {
    struct store_found *list;
    size_t count, room;
};

static int take_job(void *ctx, const struct db_value *values, int count)
{
    struct listing *listing = ctx;
    struct store_found *found = &listing->list[listing->count];
    if (listing->count == listing->room)
        return 1;
    found->key = values[0].integer;
    snprintf(found->owner, sizeof found->owner, "%.*s", SPAN_ARG(values[1].text));
    snprintf(found->id, sizeof found->id, "%.*s", SPAN_ARG(values[2].text));
    listing->count++;
    return 0;
}

/* Collected first: each is read by questions of its own. */
static int cmd_list(struct store *store, const char *number)
{
    struct err err = {0};
    char path[PATH_MAX];
    long most = number ? strtol(number, NULL, 10) : 200;
    struct db_value limit = db_integer(most > 0 && most < 100000 ? most : 200);
    struct listing listing = {calloc((size_t)limit.integer, sizeof *listing.list), .room = (size_t)limit.integer};
    int code = !listing.list ? err_set(&err, -ENOMEM, "out of memory")
                             : db_query(store_db(store),
                                        "SELECT job, owner, id FROM jobs WHERE info IS NOT NULL"
                                        " ORDER BY started DESC LIMIT $1",
                                        &limit, 1, take_job, &listing, &err);
    for (size_t i = listing.count; code >= 0 && i-- > 0;) /* the oldest first, as directories are listed */
        if (fetch_job(store, &listing.list[i], false, path, sizeof path, NULL) == 0)
            puts(path);
    free(listing.list);
    return code < 0 ? print_failure(&err) : 0;
}

static int cmd_look(int argc, char **argv)
{
    int at = argc > 2 && strcmp(argv[2], "--") == 0 ? 3 : 2;
    const char *what = argv[1], *word = argv[at];
    char where[PATH_MAX];
    struct store *store = NULL;
    struct err err = {0};
    if (strcmp(what, "fetch") == 0 && !word)
        return USAGE;
    if (store_place(NULL, where, sizeof where, &err) < 0 || store_open(&store, where, DB_READ, &err) < 0)
        return err.code == -ENOENT && strcmp(what, "fetch") == 0 ? NOT_THERE : print_failure(&err);
    int status = strcmp(what, "fetch") == 0 ? cmd_fetch(store, word) : cmd_list(store, word);
    store_close(store);
    return status;
}

int main(int argc, char **argv)
{
    umask(077);
    signal(SIGPIPE, SIG_IGN);
    log_open("scry record", 0);
    if (argc > 1 && strcmp(argv[1], "record") == 0) {
        int status = cmd_record(argc - 1, argv + 1);
        link_leave(status);
        return status;
    }
    if (argc > 1 && (strcmp(argv[1], "fetch") == 0 || strcmp(argv[1], "list") == 0))
        return cmd_look(argc, argv);
    fputs("scry-record is a part of scry; use `scry record`\n", stderr);
    return USAGE;
}
