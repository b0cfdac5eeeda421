/* SPDX-License-Identifier: Apache-2.0 */
#include "job/launch/script_env.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/system/process.h"
#include "base/system/dirs.h"
#include "shm/script_ring.h"

static const struct {
    const char *name, *built_in;
} libraries[SCRIPT_LIBRARIES] = {
    [SCRIPT_BASH] = {"libscry-bash.so", "/../bash"}, [SCRIPT_PYTHON] = {"libscry-python.so", "/../python"}};

int script_env_dir(char *ret_path, size_t size, pid_t run, struct err *err)
{
    char runtime[PATH_MAX];
    int code = dirs_runtime(runtime, sizeof runtime, err);
    if (code < 0)
        return code;
    return (size_t)snprintf(ret_path, size, "%s/scripts.%d", runtime, run) < size
               ? 0
               : err_set(err, -ENAMETOOLONG, "%s: too long", runtime);
}

/* Beside the agent; as built, in a folder of its own. */
static void find_library(int which, char ret_path[PATH_MAX])
{
    const char *const places[] = {"", libraries[which].built_in};
    char agent[PATH_MAX], path[PATH_MAX + 64];
    struct err err = {0};
    ret_path[0] = 0;
    if (agent_library(agent, sizeof agent, &err) < 0)
        return;
    char *slash = strrchr(agent, '/');
    *slash = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(path, sizeof path, "%s%s/%s", agent, places[i], libraries[which].name);
        if (access(path, R_OK) == 0 && realpath(path, ret_path))
            break;
        ret_path[0] = 0;
    }
    if (strpbrk(ret_path, " :")) /* the loader's separators */
        ret_path[0] = 0;
}

int script_env_find(struct script_env *ret_env, const char *level, struct err *err)
{
    struct script_env found = {0};
    *ret_env = found;
    int code = script_env_dir(found.dir, sizeof found.dir, getpid(), err);
    if (code < 0)
        return code;
    snprintf(found.level, sizeof found.level, "%s", level);
    for (int i = 0; i < SCRIPT_LIBRARIES; i++)
        find_library(i, found.libraries[i]);
    *ret_env = found;
    return 0;
}

static bool is_ours(const char *entry, size_t len)
{
    for (int i = 0; i < SCRIPT_LIBRARIES; i++) {
        size_t size = strlen(libraries[i].name);
        if (len >= size && memcmp(entry + len - size, libraries[i].name, size) == 0 &&
            (len == size || entry[len - size - 1] == '/'))
            return true;
    }
    return false;
}

static void put_entry(struct buf *out, const char *entry, size_t len)
{
    if (out->len)
        buf_putc(out, ':');
    buf_append(out, entry, len);
}

void script_env_apply(const struct script_env *env)
{
    _cleanup_(buf_done) struct buf list = BUF_INIT;
    const char *before = getenv("LD_PRELOAD");
    bool changed = false;
    for (size_t len; before && *(before += strspn(before, " :")); before += len) {
        len = strcspn(before, " :");
        if (is_ours(before, len))
            changed = true;
        else
            put_entry(&list, before, len);
    }
    for (int i = 0; i < SCRIPT_LIBRARIES; i++)
        if (env->dir[0] && env->libraries[i][0]) {
            put_entry(&list, env->libraries[i], strlen(env->libraries[i]));
            changed = true;
        }
    if (changed && !list.failed) {
        if (list.len)
            setenv("LD_PRELOAD", list.data, 1);
        else
            unsetenv("LD_PRELOAD");
    }
    unsetenv(SCRIPT_RING_DIR);
    if (!env->dir[0])
        return;
    setenv(SCRIPT_RING_DIR, env->dir, 1);
    setenv("SCRY_SCRIPT", env->level, 1);
}
