/* SPDX-License-Identifier: Apache-2.0 */
#include "service/job/tree.h"

#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/data/grow.h"

enum { MOST_ANCESTORS = 256 };

static int by_pid(const void *a, const void *b)
{
    const struct job_tree_process *left = a, *right = b;
    return left->pid < right->pid ? -1 : left->pid > right->pid;
}

void job_tree_read(struct job_tree *ret_tree, const char *left_out)
{
    struct job_tree_process *list = NULL;
    size_t count = 0, room = 0;
    DIR *dir = opendir("/proc");
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        if (!GROW(list, count, room))
            break;
        struct job_tree_process *process = &list[count];
        *process = (struct job_tree_process){.pid = atoi(entry->d_name)};
        if (proc_stat_read(process->pid, 0, &process->stat) < 0 || strcmp(process->stat.comm, left_out) == 0)
            continue;
        count++;
    }
    if (dir)
        closedir(dir);
    if (count)
        qsort(list, count, sizeof *list, by_pid);
    *ret_tree = (struct job_tree){list, count};
}

void job_tree_done(struct job_tree *tree)
{
    free(tree->list);
}

static const struct job_tree_process *find(const struct job_tree *tree, pid_t pid)
{
    struct job_tree_process key = {.pid = pid};
    return bsearch(&key, tree->list, tree->count, sizeof *tree->list, by_pid);
}

/* Orphans go to init or to an ancestor that takes them in its place (PR_SET_CHILD_SUBREAPER). */
static bool may_be_orphan(const struct job_tree *tree, const struct job_tree_process *process, pid_t root)
{
    const struct job_tree_process *ancestor = find(tree, root);
    for (unsigned level = 0; ancestor && level < MOST_ANCESTORS; level++) {
        if (process->stat.ppid == ancestor->stat.ppid)
            return true;
        ancestor = find(tree, ancestor->stat.ppid);
    }
    return process->stat.ppid <= 1;
}

static bool has_mark(pid_t pid, const char *dir)
{
    static const char name[] = "SCRY_JOB=";
    _cleanup_(buf_done) struct buf list = BUF_INIT;
    if (proc_environ(pid, &list) < 0 || list.failed)
        return false;
    for (const char *at = list.data, *end = at ? at + list.len : NULL, *next; at < end; at = next) {
        size_t len = strnlen(at, (size_t)(end - at));
        next = at + len + 1;
        if (len == strlen(name) + strlen(dir) && strncmp(at, name, strlen(name)) == 0)
            return strncmp(at + strlen(name), dir, strlen(dir)) == 0;
    }
    return false;
}

static void mark_orphans(struct job_tree *tree, const struct job_tree_root *root)
{
    for (size_t i = 0; root->dir && *root->dir && i < tree->count; i++) {
        struct job_tree_process *process = &tree->list[i];
        if (!process->ours && process->stat.start_ticks >= root->ticks && may_be_orphan(tree, process, root->pid))
            process->ours = has_mark(process->pid, root->dir);
    }
}

void job_tree_mark(struct job_tree *tree, bool (*is_known)(const void *ctx, pid_t pid), const void *ctx,
                   const struct job_tree_root *root)
{
    for (size_t i = 0; i < tree->count; i++)
        tree->list[i].ours = is_known(ctx, tree->list[i].pid);
    mark_orphans(tree, root);
    for (bool again = tree->count > 0; again;) { /* children may have lower pids than their parents */
        again = false;
        for (size_t i = 0; i < tree->count; i++) {
            struct job_tree_process *process = &tree->list[i];
            if (process->ours)
                continue;
            const struct job_tree_process *parent = find(tree, process->stat.ppid);
            process->ours = parent && parent->ours;
            again |= process->ours;
        }
    }
}
