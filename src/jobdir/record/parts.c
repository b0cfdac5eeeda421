/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/record/parts.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include <jansson.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "jobdir/record/info.h"
#include "jobdir/record/mirror.h"

static int is_part(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && (entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN);
}

int job_dirs_each(const char *jobdir, int (*fn)(void *ctx, const char *dir), void *ctx)
{
    char path[PATH_MAX];
    struct dirent **list = NULL;
    int code = fn(ctx, jobdir);
    if (code != 0 || (size_t)snprintf(path, sizeof path, "%s/parts", jobdir) >= sizeof path)
        return code;
    errno = 0;
    int count = scandir(path, &list, is_part, versionsort);
    if (count < 0)
        return errno == ENOMEM ? -ENOMEM : 0;
    for (int i = 0; i < count; i++) {
        if (code == 0 && i < PARTS_MOST &&
            (size_t)snprintf(path, sizeof path, "%s/parts/%s", jobdir, list[i]->d_name) < sizeof path)
            code = fn(ctx, path);
        free(list[i]);
    }
    free(list);
    return code;
}

/* As one component of a path, which no reader passes over. */
static void name_of(const char *host, char *ret_name, size_t size)
{
    snprintf(ret_name, size, "%s", *host && *host != '.' ? host : "node");
    for (char *at = ret_name; *at; at++)
        if (*at == '/')
            *at = '_';
}

int job_part_make(const char *jobdir, const char *host, char *ret_path, size_t size, struct err *err)
{
    char name[NAME_MAX - 16];
    int code;
    name_of(host, name, sizeof name);
    if ((size_t)snprintf(ret_path, size, "%s/parts", jobdir) >= size)
        return err_set(err, -ENAMETOOLONG, "the path of the job directory is too long: %s", jobdir);
    if (mkdir(ret_path, 0700) < 0 && errno != EEXIST)
        return err_errno(err, -errno, "cannot make %s", ret_path);
    for (int i = 1; i <= PARTS_MOST; i++) {
        char number[16] = "";
        if (i > 1)
            snprintf(number, sizeof number, "-%d", i);
        if ((size_t)snprintf(ret_path, size, "%s/parts/%s%s", jobdir, name, number) >= size)
            return err_set(err, -ENAMETOOLONG, "the path of the job directory is too long: %s", jobdir);
        code = mkdir(ret_path, 0700) < 0 ? -errno : 0;
        if (code != -EEXIST)
            return code < 0 ? err_errno(err, code, "cannot make %s", ret_path) : 0;
    }
    return err_set(err, -EEXIST, "%s/parts has too many parts of %s", jobdir, name);
}

struct look {
    const char *job, *name;
    bool found;
};

static int is_of(void *ctx, const char *dir)
{
    struct look *look = ctx;
    struct job_info info;
    const char *at = strrchr(look->name, '@'), *name = at ? at + 1 : look->name;
    size_t len = strcspn(name, ".");
    if (dir == look->job)
        return 0;
    look->found = job_info_read(dir, &info, NULL) == 0 && info.host && strncasecmp(info.host, name, len) == 0 &&
                  strcspn(info.host, ".") == len;
    job_info_done(&info);
    return look->found;
}

bool job_has_part_of(const char *jobdir, const char *name)
{
    struct look look = {.job = jobdir, .name = name};
    return job_dirs_each(jobdir, is_of, &look) != 0;
}

bool job_part_comes(const char *part)
{
    json_t *remote = mirror_read_remote(part);
    bool comes = remote && !json_is_true(json_object_get(remote, "complete")) && !json_object_get(remote, "note");
    json_decref(remote);
    return comes;
}

bool job_part_clock(const char *part, struct part_clock *ret_clock)
{
    char path[PATH_MAX];
    _cleanup_(freep) char *text = NULL;
    size_t size;
    *ret_clock = (struct part_clock){0};
    if ((size_t)snprintf(path, sizeof path, "%s/clock.json", part) >= sizeof path ||
        file_read_plain(path, &text, &size) < 0)
        return false;
    json_t *json = json_loadb(text, size, 0, NULL), *offset = json_object_get(json, "offset_ns");
    json_int_t bound = json_integer_value(json_object_get(json, "bound_ns"));
    json_int_t at = json_integer_value(json_object_get(json, "at_ns"));
    bool known = json_is_integer(offset);
    if (known)
        *ret_clock =
            (struct part_clock){json_integer_value(offset), bound > 0 ? (uint64_t)bound : 0, at > 0 ? (uint64_t)at : 0};
    json_decref(json);
    return known;
}

uint64_t job_part_clock_bound(const struct part_clock *clock, uint64_t at_ns)
{
    uint64_t age_ns = at_ns > clock->at_ns ? at_ns - clock->at_ns : clock->at_ns - at_ns;
    return clock->bound_ns + (clock->at_ns ? clock_drift_ns(age_ns) : 0);
}

int job_part_set_clock(const char *part, const struct part_clock *clock)
{
    char path[PATH_MAX], text[128];
    if ((size_t)snprintf(path, sizeof path, "%s/clock.json", part) >= sizeof path)
        return -ENAMETOOLONG;
    int len =
        snprintf(text, sizeof text, "{\"offset_ns\": %lld, \"bound_ns\": %llu, \"at_ns\": %llu}\n",
                 (long long)clock->offset_ns, (unsigned long long)clock->bound_ns, (unsigned long long)clock->at_ns);
    return file_replace(path, text, (size_t)len, 0600);
}
