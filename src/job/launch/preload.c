/* SPDX-License-Identifier: Apache-2.0 */
#include "job/launch/preload.h"

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/system/dirs.h"
#include "base/system/process.h"
#include "job/launch/program.h"
#include "shm/files.h"
#include "shm/script_ring.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name, *built_in;
} libraries[SCRIPT_LIBRARIES] = {[SCRIPT_BASH] = {"libscry-bash.so", "/../bash"},
                                 [SCRIPT_PYTHON] = {"libscry-python.so", "/../python"},
                                 [SCRIPT_FILES] = {"libscry-files.so", "/../files"}};

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
    for (int i = SCRIPT_BASH; i <= SCRIPT_PYTHON; i++)
        find_library(i, found.libraries[i]);
    *ret_env = found;
    return 0;
}

bool script_env_files(struct script_env *env)
{
    find_library(SCRIPT_FILES, env->libraries[SCRIPT_FILES]);
    return env->libraries[SCRIPT_FILES][0];
}

static bool is_name(const char *entry, size_t len, const char *name)
{
    size_t name_len = strlen(name);
    return len >= name_len && memcmp(entry + len - name_len, name, name_len) == 0 &&
           (len == name_len || entry[len - name_len - 1] == '/');
}

static void set_or_unset(const char *name, const struct buf *value)
{
    if (value->failed)
        return;
    if (value->len)
        setenv(name, value->data, 1);
    else
        unsetenv(name);
}

/* The address sanitizer ends programs in which a library is loaded before it. */
static void suffer_sanitizer(void)
{
    static const char link_order[] = "verify_asan_link_order=0";
    _cleanup_(buf_done) struct buf options = BUF_INIT;
    const char *asan = getenv("ASAN_OPTIONS");
    if (asan && strstr(asan, link_order))
        return;
    buf_printf(&options, "%s%s%s", asan ? asan : "", asan && *asan ? ":" : "", link_order);
    set_or_unset("ASAN_OPTIONS", &options);
}

static void put_entry(struct buf *out, const char *entry, size_t len)
{
    if (!len)
        return;
    if (out->len)
        buf_putc(out, ':');
    buf_append(out, entry, len);
}

static bool is_ours(const char *entry, size_t len)
{
    for (int i = 0; i < SCRIPT_LIBRARIES; i++)
        if (is_name(entry, len, libraries[i].name))
            return true;
    return false;
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
        if ((i == SCRIPT_FILES ? env->files : env->dir)[0] && env->libraries[i][0]) {
            put_entry(&list, env->libraries[i], strlen(env->libraries[i]));
            suffer_sanitizer();
            changed = true;
        }
    if (changed && !list.failed) {
        if (list.len)
            setenv("LD_PRELOAD", list.data, 1);
        else
            unsetenv("LD_PRELOAD");
    }
    unsetenv(SCRIPT_RING_DIR);
    unsetenv(FILES_ENV);
    if (env->files[0])
        setenv(FILES_ENV, env->files, 1);
    if (!env->dir[0])
        return;
    setenv(SCRIPT_RING_DIR, env->dir, 1);
    setenv("SCRY_SCRIPT", env->level, 1);
}

static const char LIBRARY[] = AGENT_LIBRARY;

/* The loader takes blanks and colons for separators: such a path gets a link in the runtime directory. */
static int without_separators(char path[PATH_MAX], struct err *err)
{
    char dir[PATH_MAX], link[PATH_MAX + 32], temporary[PATH_MAX + 64], target[PATH_MAX];
    if (!strpbrk(path, " :"))
        return 0;
    int code = dirs_runtime(dir, sizeof dir, err);
    if (code < 0)
        return code;
    if (strpbrk(dir, " :"))
        return err_set(err, -EINVAL,
                       "the loader cannot use the path %s, and %s has blanks or colons, too: set SCRY_RUNTIME_DIR to a "
                       "path without",
                       path, dir);
    snprintf(link, sizeof link, "%s/%s", dir, LIBRARY);
    ssize_t len = readlink(link, target, sizeof target - 1);
    target[len < 0 ? 0 : len] = 0;
    if (strcmp(target, path) != 0) {
        snprintf(temporary, sizeof temporary, "%s.%d", link, getpid());
        if (symlink(path, temporary) < 0 || rename(temporary, link) < 0) {
            code = -errno;
            unlink(temporary);
            return err_errno(err, code, "cannot make the link %s", link);
        }
    }
    return snprintf(path, PATH_MAX, "%s", link) < PATH_MAX ? 0 : err_set(err, -ENAMETOOLONG, "%s: too long", link);
}

/* The agent's socket, beside the monitor's. */
static int find_socket(char *ret_path, size_t size, struct err *err)
{
    const char *connect = getenv("SCRY_CONNECT");
    if (!connect || strncmp(connect, "unix:", 5) != 0)
        return dirs_agent_socket(ret_path, size, err);
    const char *path = connect + 5, *slash = strrchr(path, '/');
    int len = slash ? (int)(slash - path) : 1;
    return (size_t)snprintf(ret_path, size, "%.*s/agent.sock", len, slash ? path : ".") < size
               ? 0
               : err_set(err, -ENAMETOOLONG, "SCRY_CONNECT is too long");
}

/* 0 or -errno. */
static int find_all(struct preload *preload, const char *command, struct err *err)
{
    struct program program;
    int code = agent_library(preload->library, sizeof preload->library, err);
    if (code == 0)
        agent_library_mpi(preload->mpi_dir, preload->library);
    if (code == 0)
        code = without_separators(preload->library, err);
    if (code == 0)
        code = find_socket(preload->socket, sizeof preload->socket, err);
    if (code < 0)
        return code;
    program_look(&program, command);
    if (program.obstacle)
        return err_set(err, -ENOEXEC, "cannot trace %s: %s; the job runs untraced. Remedy: %s", command,
                       program.obstacle, program.remedy);
    if (program.sanitizer[0])
        program_library(&program, program.sanitizer, preload->sanitizer, sizeof preload->sanitizer);
    preload->is_script = program.path[0] && !program.is_elf;
    if (strpbrk(preload->sanitizer, " :"))
        preload->sanitizer[0] = 0; /* ASAN_OPTIONS is enough */
    return 0;
}

int preload_find(struct preload *preload, const char *command, bool wanted, struct err *err)
{
    preload->wanted = wanted;
    int code = find_all(preload, command, err);
    if (code < 0)
        *preload = (struct preload){0};
    return code;
}

static bool is_sanitizer(const char *entry, size_t len)
{
    const char *slash = memrchr(entry, '/', len);
    const char *name = slash ? slash + 1 : entry;
    size_t rest = len - (size_t)(name - entry);
    return (rest >= 10 && memcmp(name, "libasan.so", 10) == 0) ||
           (rest >= 16 && memcmp(name, "libclang_rt.asan", 16) == 0);
}

/* Puts the entries of LD_PRELOAD that are, or are not, the address sanitizer's; leaves ours out. */
static void put_entries(struct buf *out, const char *list, bool sanitizers)
{
    for (size_t len; list && *(list += strspn(list, " :")); list += len) {
        len = strcspn(list, " :");
        if (!is_name(list, len, LIBRARY) && is_sanitizer(list, len) == sanitizers)
            put_entry(out, list, len);
    }
}

void preload_apply(const struct preload *preload)
{
    _cleanup_(buf_done) struct buf list = BUF_INIT;
    const char *before = getenv("LD_PRELOAD");
    bool on = preload->library[0] != 0;
    put_entries(&list, before, true);
    bool has_sanitizer = list.len > 0;
    if (on && !has_sanitizer)
        put_entry(&list, preload->sanitizer, strlen(preload->sanitizer));
    if (on)
        put_entry(&list, preload->library, strlen(preload->library));
    put_entries(&list, before, false);
    if (on || (before && strstr(before, LIBRARY)))
        set_or_unset("LD_PRELOAD", &list);
    unsetenv("SCRY_ASAN_PRELOAD");
    unsetenv("SCRY_TRACE_WANTED");
    unsetenv("SCRY_AGENT_SOCKET");
    unsetenv(METRICS_ENV);
    const char *mpi = getenv("SCRY_MPI");
    bool messages = mpi && strcmp(mpi, "messages") == 0;
    unsetenv("SCRY_MPI");
    unsetenv("SCRY_MPI_DIR");
    if (!on)
        return;
    setenv("SCRY_MPI", preload->mpi_off ? "off" : messages ? "messages" : "stats", 1);
    if (!preload->mpi_off && preload->mpi_dir[0])
        setenv("SCRY_MPI_DIR", preload->mpi_dir, 1);
    setenv("SCRY_AGENT_SOCKET", preload->socket, 1);
    if (preload->metrics[0])
        setenv(METRICS_ENV, preload->metrics, 1);
    if (preload->wanted)
        setenv("SCRY_TRACE_WANTED", preload->patches ? "patches" : "1", 1);
    if (preload->sanitizer[0] && !has_sanitizer)
        setenv("SCRY_ASAN_PRELOAD", preload->sanitizer, 1);
    suffer_sanitizer();
}
