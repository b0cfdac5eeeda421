/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes of the job that nothing comes from, as launchers name them. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "base/system/file.h"
#include "job/run/part.h"
#include "jobdir/record/mirror.h"
#include "jobdir/record/parts.h"
#include "jobdir/text/text.h"

enum { NODES_MOST = 4096, NAME_SIZE = 256 };

/* In an allocation that the job has asked for itself, Open MPI does not use what it was told to use in place of ssh. Which
 * nodes these are stands only in the environment of its srun. */
void part_look_at(struct job *job, const json_t *process)
{
    static const char *const names[] = {"SLURM_JOB_NODELIST=", "SLURM_NODELIST="};
    const json_t *argv = json_object_get(process, "argv"), *argument;
    const char *name = json_string_value(json_object_get(process, "name"));
    char path[64];
    bool daemons = false;
    size_t index, size;
    _cleanup_(freep) char *environment = NULL;
    if (!name || strcmp(name, "srun") != 0 || job->by_srun)
        return;
    json_array_foreach(argv, index, argument)
    {
        const char *word = json_string_value(argument);
        daemons |= word && strcmp(text_base(word), "orted") == 0;
    }
    snprintf(path, sizeof path, "/proc/%d/environ", (int)json_integer_value(json_object_get(process, "pid")));
    if (!daemons || file_read(path, &environment, &size) < 0)
        return;
    for (const char *at = environment; at < environment + size && !job->by_srun; at += strlen(at) + 1)
        for (size_t i = 0; i < sizeof names / sizeof *names && !job->by_srun; i++)
            if (strncmp(at, names[i], strlen(names[i])) == 0)
                job->by_srun = strdup(at + strlen(names[i]));
}

static void note_node(struct job *job, const char *node)
{
    if (*node && strcmp(node, job->host) != 0 && !job_has_part_of(job->dir, node))
        recorder_note(&job->recorder, NOTE(node_unwatched, .node = node,
                                           .reason = "Open MPI has started its daemon there by srun: mpirun scry exec "
                                                     "PROGRAM makes a part of the job"));
}

/* "2-4" or "07", between these. */
static void note_range(struct job *job, const char *prefix, int prefix_len, const char *range, const char *suffix,
                       int suffix_len)
{
    char node[NAME_SIZE], *end;
    int width = (int)strspn(range, "0123456789");
    unsigned long from = strtoul(range, &end, 10), to = *end == '-' ? strtoul(end + 1, NULL, 10) : from;
    for (unsigned long i = from; i <= to && i - from < NODES_MOST; i++)
        if ((size_t)snprintf(node, sizeof node, "%.*s%0*lu%.*s", prefix_len, prefix, width, i, suffix_len, suffix) <
            sizeof node)
            note_node(job, node);
}

/* Slurm's lists: "n[2-4,07],login". */
static void note_list(struct job *job, const char *list)
{
    while (*list) {
        int prefix_len = (int)strcspn(list, ",[");
        const char *open = list + prefix_len, *close = *open == '[' ? strchr(open, ']') : NULL;
        const char *suffix = close ? close + 1 : open;
        int suffix_len = (int)strcspn(suffix, ",");
        char node[NAME_SIZE];
        for (const char *range = open; close && range < close; range = strpbrk(range + 1, ",]"))
            note_range(job, list, prefix_len, range + 1, suffix, suffix_len);
        if (!close && (size_t)snprintf(node, sizeof node, "%.*s", prefix_len, list) < sizeof node)
            note_node(job, node);
        list = suffix + suffix_len;
        list += *list == ',';
    }
}

void part_note_unwatched(struct job *job)
{
    if (job->by_srun)
        note_list(job, job->by_srun);
    free(job->by_srun);
    job->by_srun = NULL;
    char path[PATH_MAX + 32];
    _cleanup_(freep) char *text = NULL;
    snprintf(path, sizeof path, "%s/parts/" PARTS_UNWATCHED, job->dir);
    if (!job->dir[0] || job->options->part_of || file_read(path, &text, NULL) < 0)
        return;
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
        char *why = strchr(line, '\t');
        if (!why)
            continue;
        *why++ = '\0';
        recorder_note(&job->recorder, NOTE(node_unwatched, .node = line, .reason = why));
    }
}

static int count_brought(void *ctx, const char *dir)
{
    json_t *remote = mirror_read_remote(dir);
    *(uint64_t *)ctx += remote != NULL;
    json_decref(remote);
    return 0;
}

void part_note_logs(struct job *job)
{
    const struct run_options *options = job->options;
    const char *log = NULL;
    uint64_t nodes = 0;
    for (size_t i = 0; i < options->log_count && !log; i++)
        log = strncmp(options->logs[i], "stdout", 6) == 0 || strncmp(options->logs[i], "stderr", 6) == 0
                  ? NULL
                  : options->logs[i];
    if (!log || !job->dir[0] || options->part_of || job_dirs_each(job->dir, count_brought, &nodes) < 0 || !nodes)
        return;
    char file[256];
    snprintf(file, sizeof file, "%.*s", (int)strcspn(log, "="), log);
    recorder_note(&job->recorder, NOTE(log_elsewhere, .nodes = nodes, .log = file));
}
