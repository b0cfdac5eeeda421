/* SPDX-License-Identifier: Apache-2.0 */
#include "job/health/filesystems.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/clock.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"

#define MB (1024.0 * 1024)
#define GB (1024.0 * MB)

/* What they warn of. */
#define LOW_SHARE 0.02 /* free, if it is less than that many bytes, too */
#define LOW_BYTES (2 * GB)
#define FULL_BYTES (64 * MB) /* little on any but a small one, see LOW_SHARE */
#define FINE_SHARE 0.05
#define FINE_AGAIN 0.6
#define SOON_SHARE 0.5 /* of more than half free nobody is warned, however fast it is used */

static void add_use(struct filesystem *one, const char *use)
{
    size_t len = strlen(one->uses);
    if (!strstr(one->uses, use) && len + strlen(use) + 3 <= sizeof one->uses)
        stpcpy(stpcpy(one->uses + len, len ? ", " : ""), use);
}

void filesystems_add(struct filesystems *all, const char *path, const char *use)
{
    if (!path || path[0] != '/' || all->count == FILESYSTEMS)
        return;
    struct filesystem *one = &all->of[all->count];
    *one = (struct filesystem){.path = strdup(path)};
    if (!one->path)
        return;
    add_use(one, use);
    all->count++;
}

static void remove_one(struct filesystems *all, size_t at)
{
    ask_drop(all->of[at].ask);
    free(all->of[at].path);
    for (all->count--; at < all->count; at++)
        all->of[at] = all->of[at + 1];
}

void filesystems_done(struct filesystems *all)
{
    while (all->count)
        remove_one(all, all->count - 1);
}

/* ---- warnings ---- */

static void judge_room(struct filesystem *one, const struct look *look)
{
    double total = (double)one->now.total_bytes, left = (double)one->now.free_bytes, share = left / total;
    trend_add(&one->room, look->now_ns, left);
    double seconds = trend_left_seconds(&one->room);
    bool low = share < LOW_SHARE && left < LOW_BYTES;
    bool soon = seconds >= 0 && seconds < FILESYSTEMS_SOON_SECONDS && share < SOON_SHARE;
    if (alarm_rings(&one->low, look, low, share > FINE_SHARE, total / (left + 1)))
        look->say(look->ctx,
                  NOTE(disk_low, .path = one->path, .uses = one->uses, .free_mb = left / MB, .total_mb = total / MB));
    if (alarm_rings(&one->filling, look, soon && left > 0, share > FINE_AGAIN,
                    FILESYSTEMS_SOON_SECONDS / (seconds + 1)))
        look->say(look->ctx, NOTE(disk_filling, .path = one->path, .uses = one->uses, .free_mb = left / MB,
                                  .total_mb = total / MB, .left_seconds = seconds));
}

static void judge_inodes(struct filesystem *one, const struct look *look)
{
    double total = (double)one->now.inodes, left = (double)one->now.free_inodes, share = left / total;
    trend_add(&one->room_inodes, look->now_ns, left);
    double seconds = trend_left_seconds(&one->room_inodes);
    bool low = share < LOW_SHARE;
    bool soon = seconds >= 0 && seconds < FILESYSTEMS_SOON_SECONDS && share < SOON_SHARE;
    if (alarm_rings(&one->low_inodes, look, low, share > FINE_SHARE, total / (left + 1)))
        look->say(look->ctx, NOTE(inodes_low, .path = one->path, .uses = one->uses,
                                  .free = (uint64_t)one->now.free_inodes, .total = (uint64_t)one->now.inodes));
    if (alarm_rings(&one->filling_inodes, look, soon && left > 0, share > FINE_AGAIN,
                    FILESYSTEMS_SOON_SECONDS / (seconds + 1)))
        look->say(look->ctx,
                  NOTE(inodes_filling, .path = one->path, .uses = one->uses, .free = (uint64_t)one->now.free_inodes,
                       .total = (uint64_t)one->now.inodes, .left_seconds = seconds));
}

void filesystem_judge(struct filesystem *one, const struct look *look)
{
    if (one->now.total_bytes > 0)
        judge_room(one, look);
    if (one->now.inodes > 0)
        judge_inodes(one, look);
}

/* ---- looking ---- */

static void judge_silence(struct filesystem *one, const struct look *look)
{
    uint64_t silent_ns = one->ask ? look->now_ns - one->asked_ns : 0;
    double seconds = (double)silent_ns / NS_PER_SECOND;
    if (alarm_rings(&one->silent, look, silent_ns >= FILESYSTEMS_SILENT_NS, !one->ask, seconds))
        look->say(look->ctx, NOTE(disk_silent, .path = one->path, .uses = one->uses, .seconds = seconds));
}

/* false: it is not there, or it is the same as one before it. */
static bool take_answer(struct filesystems *all, size_t at, const struct ask_answer *answer)
{
    struct filesystem *one = &all->of[at];
    one->ask = NULL;
    one->now = *answer;
    for (size_t i = 0; i < all->count && answer->there && !one->known; i++)
        if (i != at && all->of[i].known && all->of[i].now.device == answer->device) {
            add_use(&all->of[i], one->uses);
            return false;
        }
    if (!one->known)
        one->first_free_bytes = answer->free_bytes;
    one->known |= answer->there;
    return one->known;
}

/* In a thread each, all at once: another machine may not answer for hours. */
static void ask_in_thread(struct filesystems *all, const struct look *look)
{
    for (size_t i = 0; i < all->count; i++) {
        struct filesystem *one = &all->of[i];
        bool due = one->now.elsewhere && look->now_ns >= one->asked_ns + FILESYSTEMS_ELSEWHERE_NS;
        if (one->ask || (one->known && !due))
            continue;
        one->asked_ns = look->now_ns;
        one->ask =
            ask_start(all->how ? all->how : ask_now, one->path, strlen(one->path) + 1, sizeof(struct ask_answer));
    }
}

/* false: as above. */
static bool look_at(struct filesystems *all, size_t at, const struct look *look)
{
    struct filesystem *one = &all->of[at];
    bool first = !one->known && one->asked_ns == look->now_ns, here = one->known && !one->now.elsewhere;
    struct ask_answer answer;
    if (!one->ask && !here)
        return true; /* it was asked a moment ago, or there was no thread */
    if (!one->ask)
        ask_now(one->path, &answer);
    else if (!ask_take(one->ask, first ? FILESYSTEMS_FIRST_MS / FILESYSTEMS : 0, &answer)) {
        judge_silence(one, look);
        return true;
    }
    if (!take_answer(all, at, &answer))
        return false;
    judge_silence(one, look);
    filesystem_judge(one, look);
    return true;
}

void filesystems_look(struct filesystems *all, const struct look *look)
{
    ask_in_thread(all, look);
    for (size_t i = 0; i < all->count;) {
        if (look_at(all, i, look))
            i++;
        else
            remove_one(all, i);
    }
}

double filesystems_least_share(const struct filesystems *all)
{
    double least = 1;
    for (size_t i = 0; i < all->count; i++) {
        const struct filesystem *one = &all->of[i];
        double share = one->now.total_bytes > 0 ? (double)one->now.free_bytes / (double)one->now.total_bytes : 1;
        least = share < least ? share : least;
    }
    return least;
}

json_t *filesystems_json(const struct filesystems *all)
{
    json_t *list = json_array();
    for (size_t i = 0; i < all->count; i++) {
        const struct filesystem *one = &all->of[i];
        if (one->now.there)
            json_array_append_new(list,
                                  json_pack("{s:o, s:s, s:I, s:I, s:I, s:I, s:I}", "path", text_json(one->path), "uses",
                                            one->uses, "total_bytes", (json_int_t)one->now.total_bytes, "free_bytes",
                                            (json_int_t)one->now.free_bytes, "inodes", (json_int_t)one->now.inodes,
                                            "free_inodes", (json_int_t)one->now.free_inodes, "first_free_bytes",
                                            (json_int_t)one->first_free_bytes));
    }
    if (!json_array_size(list)) {
        json_decref(list);
        return NULL;
    }
    return list;
}
