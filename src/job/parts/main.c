/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scry-parts: brings the parts of a job from other nodes (job/parts/fetch.h), beside its scry run, which starts it when a
 * launcher has gone to one, or, as `scry-parts await`, when a batch system may start some of the job elsewhere: then it
 * says on standard output what SCRY_JOIN is to be, and monitors come by themselves. It reads "JOBDIR\nID\n" from standard
 * input; when that ends, the job's command has, and it ends after all is here, or nothing more comes.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "base/system/pause.h"
#include "base/system/process.h"
#include "client/client.h"
#include "job/parts/fetch.h"
#include "jobdir/record/info.h"
#include "jobdir/record/parts.h"
#include "shm/waits.h"

enum {
    ROUND_BYTES = 2 << 20, /* of each node while the job runs: the network is the job's */
    YOUNG_ROUNDS = 1,      /* a part that is seen here needs no fetching; it has so long to come up */
    LAST_ROUNDS = 5,       /* without anything new, after the command's end */
};

struct parts {
    const char *job, *id;
    struct fetch *list;
    size_t count, room;
    size_t came; /* of them, by themselves */
    struct awaited awaited;
    char *unwatched; /* what was written of nodes that nothing comes from; NULL: nothing */
};

/* A part of a node: mostly the only one. */
static void add(struct parts *parts, const char *name, bool came, uint64_t number)
{
    char copy[sizeof parts->list->name]; /* the list may move */
    bool known = !*name || (size_t)snprintf(copy, sizeof copy, "%s", name) >= sizeof copy;
    for (size_t i = 0; i < parts->count && !known; i++)
        known = parts->list[i].number == number && strcmp(parts->list[i].name, name) == 0;
    if (known || !GROW(parts->list, parts->count, parts->room))
        return;
    struct fetch *fetch = &parts->list[parts->count++];
    *fetch = (struct fetch){.job = parts->job, .id = parts->id, .came = came, .number = number};
    snprintf(fetch->name, sizeof fetch->name, "%s", copy);
    parts->came += came;
}

static void read_came(struct parts *parts)
{
    char token[256];
    while (awaited_next(&parts->awaited, token, sizeof token))
        add(parts, token, true, 1);
}

/* ---- nodes that were gone to ---- */

/* The nodes that a launcher went to, each once. */
static void read_hosts(struct parts *parts)
{
    char path[PATH_MAX];
    _cleanup_(freep) char *text = NULL;
    if ((size_t)snprintf(path, sizeof path, "%s/parts/" PARTS_HOSTS, parts->job) >= sizeof path ||
        file_read(path, &text, NULL) < 0)
        return;
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));)
        if (rest) /* else it is being written */
            add(parts, line, false, 1);
}

static int count_own(void *ctx, const char *dir)
{
    char path[PATH_MAX];
    bool fetched = (size_t)snprintf(path, sizeof path, "%s/remote.json", dir) < sizeof path && access(path, F_OK) == 0;
    *(size_t *)ctx += !fetched;
    return 0;
}

/* All parts came up in the job directory: the file system is shared. */
static bool are_here(const struct parts *parts)
{
    size_t own = 0;
    if (parts->came) /* who sees it does not come */
        return false;
    job_dirs_each(parts->job, count_own, &own); /* with the job itself */
    return own > parts->count;
}

/* ---- nodes that nothing comes from ---- */

static bool has_no_part(const struct parts *parts, const struct fetch *fetch)
{
    return fetch->shared && !job_has_part_of(parts->job, fetch->name);
}

/* Where the file system is shared: the nodes that made no part in it. A name may be another one than the node's own: it
 * counts only if as many parts are missing. */
static void put_partless(const struct parts *parts, struct buf *out)
{
    size_t own = 0, shared = 0, unnamed = 0;
    job_dirs_each(parts->job, count_own, &own); /* with the job itself */
    for (size_t i = 0; i < parts->count; i++) {
        shared += parts->list[i].shared;
        unnamed += has_no_part(parts, &parts->list[i]);
    }
    if (!unnamed || own - 1 + unnamed != shared)
        return;
    for (size_t i = 0; i < parts->count; i++)
        if (has_no_part(parts, &parts->list[i]))
            buf_printf(out, "%s\t" FETCH_NO_PART "\n", parts->list[i].name, parts->list[i].name);
}

/* For scry run. */
static void write_unwatched(struct parts *parts)
{
    char path[PATH_MAX];
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    for (size_t i = 0; i < parts->count; i++) {
        const struct fetch *fetch = &parts->list[i];
        if (fetch_is_refused(fetch))
            buf_printf(&text, "%s\t%.*s\n", fetch->name, (int)strcspn(fetch->err.text, "\n"), fetch->err.text);
    }
    put_partless(parts, &text);
    const char *now = text.data ? text.data : "", *before = parts->unwatched ? parts->unwatched : "";
    if (text.failed || strcmp(now, before) == 0 ||
        (size_t)snprintf(path, sizeof path, "%s/parts/" PARTS_UNWATCHED, parts->job) >= sizeof path ||
        file_replace(path, now, text.len, 0600) < 0)
        return;
    free(parts->unwatched);
    parts->unwatched = buf_take(&text);
}

/* Of those nodes that have answered the last time, or of the others. Returns whether anything came. */
static bool round_of(struct parts *parts, uint64_t most, bool silent)
{
    bool came = false;
    for (size_t i = 0; i < parts->count; i++) {
        struct fetch *fetch = &parts->list[i];
        if (fetch->shared && fetch->silent == silent && !fetch->end_ns)
            fetch_compare(fetch);
        if (fetch->shared || fetch->given_up || fetch->silent != silent || fetch_is_whole(fetch))
            continue;
        if (fetch->end_ns && fetch_is_refused(fetch) && !*fetch->token) {
            fetch->given_up = true; /* it was tried while the job ran */
            continue;
        }
        came |= fetch_round(fetch, most) > 0;
        fetch->given_up = fetch->end_ns && fetch_is_refused(fetch) && client_connected();
        fetch_say(fetch, false);
        if (fetch->answered && !fetch->is_set && !fetch->shared)
            fetch_set(fetch);
        if (fetch->came && fetch_is_whole(fetch))
            fetch_release(fetch);
        for (uint64_t number = 2;
             fetch->number == 1 && !fetch->shared && number <= fetch->parts && number <= FETCH_PARTS; number++) {
            add(parts, fetch->name, fetch->came, number); /* another launcher came there, too */
            fetch = &parts->list[i];
        }
    }
    return came;
}

/* Where all parts are here already, only the clocks of their nodes are of interest. */
static void compare_clocks(struct parts *parts)
{
    for (size_t i = 0; i < parts->count; i++)
        fetch_compare(&parts->list[i]);
}

/* A node that is gone is waited for: the others come first. *ret_rest: something is still to come. */
static bool round_of_all(struct parts *parts, uint64_t most, bool *ret_rest)
{
    bool came = round_of(parts, most, false);
    came |= round_of(parts, most, true);
    *ret_rest = false;
    for (size_t i = 0; i < parts->count; i++) {
        *ret_rest |= !parts->list[i].shared && !parts->list[i].given_up && !fetch_is_whole(&parts->list[i]);
        parts->list[i].silent = !parts->list[i].answered;
    }
    write_unwatched(parts);
    return came;
}

/* true: standard input has ended. */
static bool wait_for_end(int timeout_ms)
{
    char byte;
    return wait_fd(STDIN_FILENO, POLLIN, timeout_ms) && read(STDIN_FILENO, &byte, 1) <= 0;
}

static int round_ms(const struct parts *parts)
{
    size_t rest = 0;
    for (size_t i = 0; i < parts->count; i++)
        rest += parts->list[i].came && !fetch_is_whole(&parts->list[i]);
    size_t ms = PARTS_CAME_ROUND_MS + PARTS_CAME_EACH_MS * rest;
    return (int)time_hasten(parts->awaited.said && ms < PARTS_ROUND_MS ? ms : PARTS_ROUND_MS);
}

/* Tokens are of one monitor: another one counts its nodes anew. */
static bool join(struct parts *parts)
{
    if (client_connected())
        return true;
    omis_finalize(); /* what is left of a connection that was lost */
    for (size_t i = 0; i < parts->count; i++)
        parts->list[i].token[0] = '\0';
    return client_join();
}

/* The command has ended. */
static void begin_end(struct parts *parts, uint64_t *end_ns)
{
    if (!*end_ns)
        *end_ns = clock_now_ns() + (uint64_t)PARTS_LAST_SECONDS * NS_PER_SECOND;
    for (size_t i = 0; i < parts->count; i++)
        parts->list[i].end_ns = *end_ns;
}

static void follow(struct parts *parts)
{
    uint64_t end_ns = 0;
    bool rest = true, over = false;
    for (unsigned idle = 0, round = 0; idle < LAST_ROUNDS; round++) {
        over = over || wait_for_end(round ? round_ms(parts) : 0);
        read_hosts(parts);
        read_came(parts);
        if (over)
            begin_end(parts, &end_ns);
        bool here = are_here(parts);
        if (here && !over && round >= YOUNG_ROUNDS && join(parts))
            compare_clocks(parts);
        if (here || (!over && round < YOUNG_ROUNDS))
            rest = false;
        else if (join(parts))
            idle = round_of_all(parts, over ? UINT64_MAX : ROUND_BYTES, &rest) ? 0 : idle;
        if (!over)
            continue;
        if (!rest)
            break;
        idle++;
        wait_fd(-1, 0, PARTS_LAST_MS);
    }
    for (size_t i = 0; i < parts->count; i++)
        fetch_say(&parts->list[i], true);
}

int main(int argc, char **argv)
{
    char job[PATH_MAX], id[256], line[512];
    prctl(PR_SET_NAME, PARTS_PROCESS_NAME);
    if (!fgets(job, sizeof job, stdin) || !fgets(id, sizeof id, stdin))
        return EXIT_FAILURE;
    job[strcspn(job, "\n")] = id[strcspn(id, "\n")] = '\0';
    struct parts parts = {.job = job, .id = id};
    const char *join =
        argc > 1 && strcmp(argv[1], "await") == 0 ? awaited_begin(&parts.awaited, line, sizeof line) : NULL;
    if (join)
        fputs(join, stdout);
    fclose(stdout); /* scry run waits for its end */
    follow(&parts);
    awaited_end(&parts.awaited);
    omis_finalize();
    for (size_t i = 0; i < parts.count; i++)
        fetch_done(&parts.list[i]);
    free(parts.list);
    free(parts.unwatched);
    return 0;
}
