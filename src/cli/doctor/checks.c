/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/doctor/doctor.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/dirs.h"
#include "base/system/memory_dir.h"
#include "cli/common/cli.h"
#include "client/client.h"
#include "jobdir/text/text.h"

enum {
    LEAST_PERCENT = 5,         /* recording stops when less of the disk is left */
    LEAST_BUFFERS = 256 << 20, /* bytes: four processes with the default buffer */
};

/* Checks the free space under an existing directory: sets the text, and WARN if there is little. */
static void check_space(struct finding *finding, const char *path)
{
    struct statvfs disk;
    if (statvfs(path, &disk) < 0) {
        finding_set(finding, FINDING_FAIL, "%s: %s", path, strerror(errno));
        return;
    }
    double unit = (double)disk.f_frsize / (1 << 30), free_gb = (double)disk.f_bavail * unit;
    double percent = disk.f_blocks ? 100.0 * (double)disk.f_bavail / (double)disk.f_blocks : 100.0;
    finding_set(finding, FINDING_OK, "%s, %.1f GB free (%.0f %%)", path, free_gb, percent);
    if (access(path, W_OK) < 0) {
        finding_set(finding, FINDING_FAIL, "%s cannot be written: %s", path, strerror(errno));
    } else if (percent < LEAST_PERCENT || (disk.f_files && disk.f_favail == 0)) {
        finding_set(finding, FINDING_WARN, "%s is nearly full: %.1f GB free (%.1f %%); recording stops at %d %%", path,
                    free_gb, percent, LEAST_PERCENT);
        finding_remedy(finding, "free some space there");
    }
}

/* Buffers are in the runtime directory if that is in memory, else in a folder in memory. */
static void check_buffers(struct finding *finding, const char *path)
{
    struct statvfs disk;
    struct err err;
    if (!memory_dir_is_memory(path)) {
        if (memory_dir_look(MEMORY_DIR_ROOT, &err) < 0) {
            finding_set(
                finding, FINDING_WARN,
                "%s is on a disk, and so are the buffers of traced processes: each process that starts or forks "
                "costs some 10 milliseconds more (%s)",
                path, err.text);
            finding_remedy(finding,
                           "set SCRY_RUNTIME_DIR or XDG_RUNTIME_DIR to a folder of your own in memory (tmpfs)");
        } else {
            finding_set(finding, FINDING_OK, "%s; the buffers of traced processes are in %s/scry-%u", path,
                        MEMORY_DIR_ROOT, geteuid());
        }
    } else if (statvfs(path, &disk) == 0 && disk.f_bavail * disk.f_frsize < LEAST_BUFFERS) {
        finding_set(finding, FINDING_WARN, "%s has %.0f MB free: traced processes have buffers there, up to 64 MB each",
                    path, (double)(disk.f_bavail * disk.f_frsize) / (1 << 20));
        finding_remedy(finding, "free some space there, set SCRY_RUNTIME_DIR, or use --buffer 1M");
    }
}

void doctor_runtime(struct finding *finding)
{
    char path[PATH_MAX];
    struct err err;
    if (dirs_runtime(path, sizeof path, &err) < 0) {
        finding_set(finding, FINDING_FAIL, "%s", err.text);
        finding_remedy(finding, "set SCRY_RUNTIME_DIR to a short path of your own");
        return;
    }
    check_space(finding, path);
    if (finding->state == FINDING_OK && strncmp(text_base(path), "run-", 4) == 0 && !getenv("SCRY_RUNTIME_DIR")) {
        finding_set(finding, FINDING_WARN, "%s is used: /tmp/scry-%u is somebody else's, or was when it was needed",
                    path, geteuid());
        finding_remedy(finding,
                       "where sessions have an XDG_RUNTIME_DIR nobody can take it; else remove %s when no job runs",
                       path);
    } else if (finding->state == FINDING_OK) {
        check_buffers(finding, path);
    }
}

void doctor_jobs(struct finding *finding)
{
    char path[PATH_MAX];
    struct err err;
    if (dirs_jobs(path, sizeof path, &err) < 0) {
        finding_set(finding, FINDING_FAIL, "%s", err.text);
        finding_remedy(finding, "set SCRY_STATE_DIR to a directory that you can write");
        return;
    }
    check_space(finding, path);
    if (finding->state != FINDING_OK && !*finding->remedy)
        finding_remedy(finding, "set SCRY_STATE_DIR to a directory that you can write");
}

void doctor_tmp(struct finding *finding)
{
    const char *path = getenv("TMPDIR");
    check_space(finding, path && *path ? path : "/tmp");
    if (finding->state == FINDING_FAIL)
        finding_remedy(finding, "set TMPDIR to a directory that you can write");
}

void doctor_programs(struct finding *finding)
{
    static const struct {
        const char *name, *without;
    } programs[] = {
        {"scry-monitor", "nothing works"},
        {"scry-tracer", "nothing can be stopped, no breakpoints, no backtraces"},
        {"scry-symbols", "functions have no names and values"},
        {"scry-publisher", "no job is published (--broker)"},
        {"scry-mirror", "no job at a broker is seen"},
        {"scry-record", "nothing is stored in or read from a record"},
        {"scry-site", "scry site shows nothing"},
        {"scry-serve", "scry serve shows nothing in a browser"},
        {"scry-link", "no other machine is reached"},
        {"scry-keys", "no keys can be made"},
    };
    char path[PATH_MAX], real[PATH_MAX];
    struct err err;
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        if (dirs_libexec(programs[i].name, path, sizeof path, &err) < 0) {
            finding_set(finding, FINDING_FAIL, "%s is missing: without it %s", programs[i].name, programs[i].without);
            finding_remedy(finding, "install scry again, or set SCRY_LIBEXEC to where its programs are");
            return;
        }
    *strrchr(path, '/') = '\0';
    finding_set(finding, FINDING_OK, "all in %s", realpath(path, real) ? real : path);
}

struct extension_count {
    char dirs[300];
    unsigned directories, extensions;
    struct err untrusted; /* of the last directory whose extensions are left out */
};

static void count_extensions(void *ctx, const char *dir)
{
    struct extension_count *count = ctx;
    char path[PATH_MAX];
    if (trusted_path(path, dir, S_IFDIR, &count->untrusted) < 0)
        return;
    DIR *stream = opendir(dir);
    if (!stream)
        return;
    size_t len = strlen(count->dirs);
    snprintf(count->dirs + len, sizeof count->dirs - len, "%s%s", len ? ":" : "", dir);
    count->directories++;
    const struct dirent *entry;
    while ((entry = readdir(stream))) {
        size_t name_len = strlen(entry->d_name);
        if (strncmp(entry->d_name, "scry_ext_", 9) == 0 && name_len > 12 &&
            strcmp(entry->d_name + name_len - 3, ".so") == 0)
            count->extensions++;
    }
    closedir(stream);
}

void doctor_extensions(struct finding *finding)
{
    struct extension_count count = {0};
    dirs_extensions(count_extensions, &count);
    if (count.directories)
        finding_set(finding, FINDING_OK, "%u in %s", count.extensions, count.dirs);
    else
        finding_set(finding, FINDING_OK, "none installed (SCRY_EXT_PATH is searched first)");
    const char *own = getenv("SCRY_EXT_PATH");
    if (count.untrusted.code) {
        finding_set(finding, FINDING_WARN, "some are left out: %.300s", count.untrusted.text);
        finding_remedy(finding, "make it writable only by you, or move them");
    } else if (own && *own && !count.directories) {
        finding_set(finding, FINDING_WARN, "no directory of SCRY_EXT_PATH exists: %.300s", own);
        finding_remedy(finding, "correct SCRY_EXT_PATH");
    }
}

void doctor_monitor(struct finding *finding)
{
    char request[] = ": version()";
    if (!client_join()) {
        const char *error = client_error(), *why = error ? error : "it cannot be reached";
        bool none = client_found_none();
        finding_set(finding, none ? FINDING_OK : FINDING_FAIL, "%s%s", why, none ? ": it is started when needed" : "");
        if (client_timed_out())
            finding_remedy(finding, "do that: it does not harm running jobs");
        return;
    }
    Omis_reply reply = omis_request(request, NULL, NULL, 0);
    bool good = reply[0]->status == OMIS_OK && reply[1] && reply[1]->obj_list && reply[1]->result;
    const char *text = good ? reply[1]->result : reply[0]->result;
    finding_set(finding, good ? FINDING_OK : FINDING_FAIL, good ? "runs: version %.300s" : "runs, but answers: %.300s",
                text ? text : "nothing");
    omis_reply_free(reply);
    omis_finalize();
}

static bool find_in_path(const char *name, char *ret_path, size_t size)
{
    const char *list = getenv("PATH");
    while (list && *list) {
        size_t len = strcspn(list, ":");
        int written = snprintf(ret_path, size, "%.*s/%s", (int)len, list, name);
        if (written > 0 && (size_t)written < size && access(ret_path, X_OK) == 0)
            return true;
        list += len + (list[len] == ':');
    }
    return false;
}

void doctor_mpi(struct finding *finding)
{
    static const char *const launchers[] = {"mpirun", "mpiexec", "srun"};
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
        if (find_in_path(launchers[i], path, sizeof path)) {
            /* Debian's mpirun is a link to a link to the implementation's own name */
            char real[PATH_MAX];
            const char *target = realpath(path, real) && strcmp(real, path) != 0 ? real : NULL;
            finding_set(finding, FINDING_OK, "%.200s%s%.200s", path, target ? " -> " : "", target ? target : "");
            return;
        }
    finding_set(finding, FINDING_OK, "no launcher in PATH (needed by MPI jobs only)");
}
