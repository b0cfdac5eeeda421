/* SPDX-License-Identifier: Apache-2.0 */
#include "job/launch/step.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/system/dirs.h"
#include "base/system/wait_world.h"
#include "shm/waits.h"

enum { NAME_MOST = 100 };
static const char PREFIX[] = "step-";

/* Where the link is. false: nothing is to be shared. */
static bool find_link(char *ret_path, size_t size)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    char dir[PATH_MAX];
    const char *name = getenv("SCRY_STEP");
    size_t len = name ? strlen(name) : 0;
    return len && len <= NAME_MOST && strspn(name, allowed) == len && dirs_runtime(dir, sizeof dir, NULL) == 0 &&
           (size_t)snprintf(ret_path, size, "%s/%s%s", dir, PREFIX, name) < size;
}

static bool read_link(const char *path, char *ret_dir, size_t size)
{
    ssize_t len = readlink(path, ret_dir, size - 1);
    if (len <= 0)
        return false;
    ret_dir[len] = '\0';
    return access(ret_dir, F_OK) == 0;
}

/* In the folder of this link. */
static void remove_old(const char *link)
{
    char dir[PATH_MAX];
    snprintf(dir, sizeof dir, "%.*s", (int)(strrchr(link, '/') - link), link);
    DIR *folder = opendir(dir);
    time_t now = time(NULL);
    for (const struct dirent *entry; folder && (entry = readdir(folder));) {
        struct stat st;
        if (strncmp(entry->d_name, PREFIX, sizeof PREFIX - 1) == 0 &&
            fstatat(dirfd(folder), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode) &&
            now - st.st_mtime > STEP_KEPT_SECONDS)
            unlinkat(dirfd(folder), entry->d_name, 0);
    }
    if (folder)
        closedir(folder);
}

void step_offer(const char *dir)
{
    char link[PATH_MAX], fresh[PATH_MAX + 32];
    if (!find_link(link, sizeof link))
        return;
    snprintf(fresh, sizeof fresh, "%s.%d", link, getpid());
    remove_old(link);
    unlink(fresh);
    if (symlink(dir, fresh) == 0 && rename(fresh, link) < 0)
        unlink(fresh);
}

bool step_lead(void)
{
    char link[PATH_MAX], lead[PATH_MAX + 16];
    if (!find_link(link, sizeof link))
        return false;
    remove_old(link);
    snprintf(lead, sizeof lead, "%s.lead", link);
    return symlink("lead", lead) == 0;
}

void step_forget(void)
{
    unsetenv("SCRY_STEP");
    unsetenv("SCRY_BATCH_MEMORY");
}

bool step_find(char *ret_dir, size_t size)
{
    const struct wait_policy *policy = &wait_policies[WAIT_STEP];
    char link[PATH_MAX];
    if (!find_link(link, sizeof link))
        return false;
    uint64_t start = wait_now_ns();
    for (;;) {
        if (read_link(link, ret_dir, size))
            return true;
        struct wait_seen seen = {.passed_ns = wait_now_ns() - start};
        if (waits_judge(policy, &seen) != WAIT_ON)
            return false;
        wait_poll(NULL, 0, (int)(waits_slice_ns(policy, &seen) / WAITS_NS_PER_MS) + 1);
    }
}
