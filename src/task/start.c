/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the runner of a user's tasks (task/store.h). */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/data/arena.h"
#include "base/data/cleanup.h"
#include "base/system/dirs.h"
#include "base/system/file.h"
#include "base/system/process.h"
#include "task/store.h"

extern char **environ;

/* What the runner keeps of an environment. All else is the task's own: where somebody submits it from must not matter. */
static const char *const kept[] = {
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "PATH",
    "LANG",
    "TZ",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "SSH_AUTH_SOCK",
    "SCRY_SSH",
    "SCRY_PROGRAM",
    "SCRY_RUNTIME_DIR",
    "SCRY_STATE_DIR",
    "SCRY_CACHE_DIR",
    "SCRY_LIBEXEC",
    "SCRY_EXT_PATH",
    "SCRY_AGENT_LIB",
    "SCRY_TEST_PAUSES",
    "SCRY_TEST_HASTE",
    "SCRY_TASKS_AT_ONCE",
    "SCRY_BROKER",
    "SCRY_KEEP_FOR",
    "SCRY_KEEP_SIZE",
};

static bool is_kept(const char *entry)
{
    size_t len = strcspn(entry, "=");
    if (strncmp(entry, "LC_", 3) == 0)
        return true;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (strlen(kept[i]) == len && strncmp(kept[i], entry, len) == 0)
            return true;
    return false;
}

static char **own_environment(struct arena *memory)
{
    size_t count = 0, at = 0;
    while (environ[count])
        count++;
    char **made = arena_zalloc(memory, count + 1, sizeof *made);
    for (size_t i = 0; made && i < count; i++)
        if (is_kept(environ[i]))
            made[at++] = environ[i];
    return made;
}

int task_runner_wake(const struct task_store *store, struct err *err)
{
    char path[TASK_HOST_PATH_SIZE], name[] = "scry-tasks", *argv[] = {name, NULL};
    task_host_path(store, "", TASK_RUNNER_LOCK, path);
    int lock = file_open_own(AT_FDCWD, path, O_RDWR | O_CREAT);
    bool runs = lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) < 0;
    if (lock >= 0)
        close(lock);
    if (runs)
        return 0;
    struct arena memory = {0};
    char **environment = own_environment(&memory);
    int code = environment ? dirs_libexec(name, path, PATH_MAX, err) : err_set(err, -ENOMEM, "out of memory");
    if (code == 0) {
        const struct spawn spawn = {.path = path,
                                    .argv = argv,
                                    .environment = environment,
                                    .in = SPAWN_NULL,
                                    .out = SPAWN_NULL,
                                    .error = SPAWN_NULL};
        code = spawn_detached(&spawn, 0);
        if (code < 0)
            err_errno(err, code, "cannot start %s", path);
    }
    arena_done(&memory);
    return code;
}

void task_runner_look(const struct task_store *store)
{
    char **ids;
    size_t count;
    if (task_list_active(store, &ids, &count, NULL) < 0)
        return;
    jobdir_list_free(ids, count);
    if (count)
        task_runner_wake(store, NULL);
}
