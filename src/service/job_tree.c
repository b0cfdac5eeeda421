/* SPDX-License-Identifier: Apache-2.0 */
#include "service/job_tree.h"

#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

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
        if (count == room) {
            room = room ? room * 2 : 256;
            struct job_tree_process *more = realloc(list, room * sizeof *list);
            if (!more)
                break;
            list = more;
        }
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

static bool parent_is_ours(const struct job_tree *tree, const struct job_tree_process *process)
{
    struct job_tree_process key = {.pid = process->stat.ppid};
    const struct job_tree_process *parent = bsearch(&key, tree->list, tree->count, sizeof *tree->list, by_pid);
    return parent && parent->ours;
}

void job_tree_mark(struct job_tree *tree, bool (*is_known)(const void *ctx, pid_t pid), const void *ctx,
                   pid_t supervisor, uint64_t root_ticks)
{
    for (bool again = tree->count > 0; again;) { /* children may have lower pids than their parents */
        again = false;
        for (size_t i = 0; i < tree->count; i++) {
            struct job_tree_process *process = &tree->list[i];
            if (process->ours)
                continue;
            if (is_known(ctx, process->pid))
                process->ours = true;
            else if (process->stat.ppid == supervisor && supervisor > 1)
                process->ours = process->stat.start_ticks >= root_ticks;
            else
                process->ours = parent_is_ours(tree, process);
            again |= process->ours;
        }
    }
}
