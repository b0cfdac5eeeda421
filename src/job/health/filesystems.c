/* SPDX-License-Identifier: Apache-2.0 */
#include "job/health/filesystems.h"

#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "base/system/clock.h"
#include "jobdir/text/text.h"

#define XFS_MAGIC 0x58465342
#define ZFS_MAGIC 0x2fc12fc1
#define MB (1024.0 * 1024)
#define GB (1024.0 * MB)
#define ELSEWHERE_EVERY_NS (UINT64_C(30) * NS_PER_SECOND)

/* What they warn of. */
#define LOW_SHARE 0.02 /* free, if it is less than that many bytes, too */
#define LOW_BYTES (2 * GB)
#define FULL_BYTES (64 * MB) /* little on any but a small one, see LOW_SHARE */
#define FINE_SHARE 0.05
#define SOON_SECONDS 600
#define FINE_AGAIN 0.6
#define SOON_SHARE 0.5 /* of more than half free nobody is warned, however fast it is used */

static bool is_elsewhere(unsigned long type)
{
    static const unsigned long here[] = {EXT4_SUPER_MAGIC,      XFS_MAGIC,        BTRFS_SUPER_MAGIC, TMPFS_MAGIC,
                                         OVERLAYFS_SUPER_MAGIC, F2FS_SUPER_MAGIC, ZFS_MAGIC,         RAMFS_MAGIC};
    for (size_t i = 0; i < sizeof here / sizeof *here; i++)
        if (type == here[i])
            return false;
    return true;
}

static void add_use(struct filesystem *one, const char *use)
{
    size_t len = strlen(one->uses);
    if (!strstr(one->uses, use))
        snprintf(one->uses + len, sizeof one->uses - len, "%s%s", len ? ", " : "", use);
}

void filesystems_add(struct filesystems *all, const char *path, const char *use)
{
    struct stat info;
    struct statfs figures;
    if (!path || path[0] != '/' || stat(path, &info) < 0)
        return;
    for (size_t i = 0; i < all->count; i++)
        if (all->of[i].device == info.st_dev) {
            add_use(&all->of[i], use);
            return;
        }
    if (all->count == FILESYSTEMS || statfs(path, &figures) < 0)
        return;
    struct filesystem *one = &all->of[all->count];
    *one = (struct filesystem){.path = strdup(path),
                               .device = info.st_dev,
                               .elsewhere = is_elsewhere((unsigned long)figures.f_type),
                               .total_bytes = -1};
    if (!one->path)
        return;
    add_use(one, use);
    all->count++;
}

void filesystems_done(struct filesystems *all)
{
    for (size_t i = 0; i < all->count; i++)
        free(all->of[i].path);
    all->count = 0;
}

/* ---- warnings ---- */

static void judge_room(struct filesystem *one, const struct look *look)
{
    double total = (double)one->total_bytes, left = (double)one->free_bytes, share = left / total;
    trend_add(&one->room, look->now_ns, left);
    double seconds = trend_left_seconds(&one->room);
    bool low = share < LOW_SHARE && left < LOW_BYTES;
    bool soon = seconds >= 0 && seconds < SOON_SECONDS && share < SOON_SHARE;
    if (alarm_rings(&one->low, look, low, share > FINE_SHARE, total / (left + 1)))
        look->say(look->ctx,
                  NOTE(disk_low, .path = one->path, .uses = one->uses, .free_mb = left / MB, .total_mb = total / MB));
    if (alarm_rings(&one->filling, look, soon && left > 0, share > FINE_AGAIN, SOON_SECONDS / (seconds + 1)))
        look->say(look->ctx, NOTE(disk_filling, .path = one->path, .uses = one->uses, .free_mb = left / MB,
                                  .total_mb = total / MB, .left_seconds = seconds));
}

static void judge_inodes(struct filesystem *one, const struct look *look)
{
    double total = (double)one->inodes, left = (double)one->free_inodes, share = left / total;
    trend_add(&one->room_inodes, look->now_ns, left);
    double seconds = trend_left_seconds(&one->room_inodes);
    bool low = share < LOW_SHARE;
    bool soon = seconds >= 0 && seconds < SOON_SECONDS && share < SOON_SHARE;
    if (alarm_rings(&one->low_inodes, look, low, share > FINE_SHARE, total / (left + 1)))
        look->say(look->ctx, NOTE(inodes_low, .path = one->path, .uses = one->uses, .free = (uint64_t)one->free_inodes,
                                  .total = (uint64_t)one->inodes));
    if (alarm_rings(&one->filling_inodes, look, soon && left > 0, share > FINE_AGAIN, SOON_SECONDS / (seconds + 1)))
        look->say(look->ctx,
                  NOTE(inodes_filling, .path = one->path, .uses = one->uses, .free = (uint64_t)one->free_inodes,
                       .total = (uint64_t)one->inodes, .left_seconds = seconds));
}

void filesystem_judge(struct filesystem *one, const struct look *look)
{
    if (one->total_bytes > 0)
        judge_room(one, look);
    if (one->inodes > 0)
        judge_inodes(one, look);
}

/* ---- looking ---- */

static int64_t times(uint64_t blocks, uint64_t size)
{
    uint64_t bytes;
    return __builtin_mul_overflow(blocks, size, &bytes) || bytes > INT64_MAX ? INT64_MAX : (int64_t)bytes;
}

static void look_at(struct filesystem *one, const struct look *look)
{
    struct statfs figures;
    if (one->elsewhere && one->looked_ns && look->now_ns < one->looked_ns + ELSEWHERE_EVERY_NS)
        return;
    one->looked_ns = look->now_ns;
    if (statfs(one->path, &figures) < 0) {
        one->total_bytes = -1;
        one->inodes = 0;
        return;
    }
    uint64_t block = (uint64_t)(figures.f_frsize > 0 ? figures.f_frsize : figures.f_bsize);
    one->total_bytes = times(figures.f_blocks, block);
    one->free_bytes = times(figures.f_bavail < figures.f_blocks ? figures.f_bavail : figures.f_blocks, block);
    one->inodes = times(figures.f_files, 1);
    one->free_inodes = times(figures.f_ffree < figures.f_files ? figures.f_ffree : figures.f_files, 1);
    filesystem_judge(one, look);
}

void filesystems_look(struct filesystems *all, const struct look *look)
{
    for (size_t i = 0; i < all->count; i++)
        look_at(&all->of[i], look);
}

double filesystems_least_share(const struct filesystems *all)
{
    double least = 1;
    for (size_t i = 0; i < all->count; i++) {
        const struct filesystem *one = &all->of[i];
        double share = one->total_bytes > 0 ? (double)one->free_bytes / (double)one->total_bytes : 1;
        least = share < least ? share : least;
    }
    return least;
}

json_t *filesystems_json(const struct filesystems *all)
{
    json_t *list = json_array();
    for (size_t i = 0; i < all->count; i++) {
        const struct filesystem *one = &all->of[i];
        if (one->total_bytes >= 0)
            json_array_append_new(
                list, json_pack("{s:o, s:s, s:I, s:I, s:I, s:I}", "path", text_json(one->path), "uses", one->uses,
                                "total_bytes", (json_int_t)one->total_bytes, "free_bytes", (json_int_t)one->free_bytes,
                                "inodes", (json_int_t)one->inodes, "free_inodes", (json_int_t)one->free_inodes));
    }
    if (!json_array_size(list)) {
        json_decref(list);
        return NULL;
    }
    return list;
}
